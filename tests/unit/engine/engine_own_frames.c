// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which frames are the program's own, where a traceback starts, and which frame names it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/function_name.h"
#include "engine/wrappers.h"
#include "engine_data.h"
#include "snapshot.h"

#define LIBC "/usr/lib/x86_64-linux-gnu/libc.so.6"
#define INJECTED "/memfd:allocsnap-sampler"

#define GLIB "/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0.7400.6"
#define JVM "/usr/lib/jvm/java-17/lib/server/libjvm.so"
#define SHOP "/srv/shop"

static const struct {
	enum frame_role role;
	const char *function;
	const char *object, *source; /* NULL: not known */
} functions[] = {
	{ ROLE_HEAP, "malloc" }, { ROLE_HEAP, "calloc" }, { ROLE_HEAP, "realloc" },
	{ ROLE_HEAP, "reallocarray" }, { ROLE_HEAP, "memalign" }, { ROLE_HEAP, "aligned_alloc" },
	{ ROLE_HEAP, "posix_memalign" }, { ROLE_HEAP, "valloc" }, { ROLE_HEAP, "pvalloc" },
	{ ROLE_HEAP, "__libc_malloc" }, { ROLE_HEAP, "__libc_memalign" },
	{ ROLE_HEAP, "__GI___libc_malloc" }, { ROLE_HEAP, "__posix_memalign" },
	{ ROLE_ALLOCATOR, "_int_malloc" }, { ROLE_ALLOCATOR, "_int_malloc.part.0" },
	{ ROLE_HEAP, "malloc@@GLIBC_2.2.5" }, { ROLE_HEAP, "je_malloc" }, { ROLE_HEAP, "je_mallocx" },
	{ ROLE_HEAP, "_rjem_realloc" }, { ROLE_HEAP, "tc_calloc" }, { ROLE_ALLOCATOR, "tc_newarray" },
	{ ROLE_HEAP, "mi_malloc" }, { ROLE_HEAP, "mi_heap_malloc" }, { ROLE_ALLOCATOR, "mi_new" },
	{ ROLE_ALLOCATOR, "mmap64" }, { ROLE_ALLOCATOR, "strdup" }, { ROLE_ALLOCATOR, "__strndup" },
	{ ROLE_HEAP, "operator new(unsigned long)" }, { ROLE_HEAP, "operator new[](unsigned long)" },
	{ ROLE_HEAP, "operator new(unsigned long, std::align_val_t)" },
	{ ROLE_HEAP, "operator new" }, { ROLE_HEAP, "operator new[]" }, { ROLE_HEAP, "_Znwm" },
	{ ROLE_HEAP, "_ZnamRKSt9nothrow_t" }, { ROLE_HEAP, "Foo::operator new(unsigned long)" },
	{ ROLE_HEAP, "Foo<int>::operator new[](unsigned long)" },
	{ ROLE_HEAP, "__rust_alloc" }, { ROLE_HEAP, "__rustc::__rust_alloc_zeroed" },
	{ ROLE_ALLOCATOR, "alloc::alloc::exchange_malloc" },
	{ ROLE_ALLOCATOR, "PyObject_Malloc" }, { ROLE_ALLOCATOR, "_PyObject_GC_NewVar" },
	{ ROLE_ALLOCATOR, "PyMem_RawMalloc" }, { ROLE_ALLOCATOR, "_PyMem_DebugRawAlloc" },
	{ ROLE_ALLOCATOR, "PyType_GenericAlloc" }, { ROLE_ALLOCATOR, "zmalloc_usable" },
	{ ROLE_ALLOCATOR, "ztrymalloc_usable_internal" }, { ROLE_ALLOCATOR, "zrealloc_usable" },
	{ ROLE_ALLOCATOR, "xmalloc" }, { ROLE_ALLOCATOR, "xrealloc" }, { ROLE_ALLOCATOR, "xstrdup" },
	{ ROLE_ALLOCATOR, "palloc0" }, { ROLE_ALLOCATOR, "ngx_palloc_large" }, { ROLE_ALLOCATOR, "CRYPTO_zalloc" },
	{ ROLE_ALLOCATOR, "CRYPTO_strdup" }, { ROLE_ALLOCATOR, "av_mallocz" }, { ROLE_ALLOCATOR, "uv__malloc" },
	{ ROLE_ALLOCATOR, "sqlite3DbMallocRawNN" },

	{ ROLE_PLUMBING, "std::allocator<int>::allocate(unsigned long)" },
	{ ROLE_PLUMBING, "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*)" },
	{ ROLE_PLUMBING, "__gnu_cxx::new_allocator<char>::allocate" },
	{ ROLE_PLUMBING, "boost::container::vector<int>::push_back(int)" },
	{ ROLE_PLUMBING, "alloc::raw_vec::RawVec<T,A>::grow_one" }, { ROLE_PLUMBING, "<[u8]>::to_vec" },
	{ ROLE_PLUMBING, "<alloc::vec::Vec<T> as core::clone::Clone>::clone" },
	{ ROLE_PLUMBING, "runtime.growslice", NULL, "/usr/lib/go-1.19/src/runtime/slice.go" },
	{ ROLE_PLUMBING, "internal/runtime/maps.newarray", NULL, "/usr/lib/go/src/internal/runtime/maps/map.go" },
	{ ROLE_PLUMBING, "runtime.(*hmap).newoverflow", NULL, "runtime/map.go" },
	{ ROLE_OWN, "runtime.New", NULL, "/srv/shop/runtime.go" },
	{ ROLE_PLUMBING, "hashbrown::raw::RawTable<T>::reserve_rehash" },
	{ ROLE_PLUMBING, "<T as core::convert::Into<U>>::into" },

	/* a name of one library is another function in any other file */
	{ ROLE_ALLOCATOR, "g_malloc0", GLIB }, { ROLE_ALLOCATOR, "g_slice_alloc", GLIB },
	{ ROLE_ALLOCATOR, "magazine_cache_push_magazine", SHOP, "../../glib/gslice.c" },
	{ ROLE_PLUMBING, "g_array_append_vals", GLIB }, { ROLE_OWN, "g_malloc0", SHOP },
	{ ROLE_OWN, "g_list_of_orders", SHOP }, { ROLE_OWN, "magazine_print", SHOP, "/src/press/magazine.c" },
	{ ROLE_ALLOCATOR, "AllocSetContextCreateInternal", "/usr/lib/postgresql/15/bin/postgres" },
	{ ROLE_ALLOCATOR, "AllocSetAlloc", "/srv/pg", "./src/backend/utils/mmgr/aset.c" }, { ROLE_OWN, "BumpAllocate", SHOP },
	{ ROLE_ALLOCATOR, "allocator_alloc", "/usr/lib/x86_64-linux-gnu/libapr-1.so.0.7.2" },
	{ ROLE_OWN, "allocator_alloc", SHOP }, { ROLE_ALLOCATOR, "new_arena", "/usr/bin/python3.11" }, { ROLE_OWN, "new_arena", SHOP },
	{ ROLE_ALLOCATOR, "os::malloc(unsigned long, MEMFLAGS)", JVM }, { ROLE_ALLOCATOR, "Arena::grow()", JVM },
	{ ROLE_OWN, "os::malloc(unsigned long, int)", SHOP }, { ROLE_OWN, "main", JVM },

	/* core:: and alloc:: are Rust's in a source file of Rust, or in a name without parameters */
	{ ROLE_PLUMBING, "core::iter::collect", SHOP, "/rustc/90c5418/library/core/src/iter/mod.rs" },
	{ ROLE_PLUMBING, "core::ops::function::FnOnce::call_once{{vtable.shim}}", SHOP },
	{ ROLE_ALLOCATOR, "alloc::alloc::alloc", SHOP, "/usr/src/rustc-1.63.0/library/alloc/src/alloc.rs" },
	{ ROLE_OWN, "core::Cache::put()", SHOP, "/src/core.cc" }, { ROLE_OWN, "core::Cache::put()", SHOP },
	{ ROLE_OWN, "core::(anonymous namespace)::put(int) const", SHOP }, { ROLE_OWN, "alloc::Pool<int>::take", SHOP, "pool.h" },
	{ ROLE_OWN, "void alloc::alloc::fill<int>(int) [clone .isra.0]", SHOP }, { ROLE_OWN, "core::Map<void ()>::grow()", SHOP },
	{ ROLE_PLUMBING, "alloc::boxed::Box<dyn FnOnce()>::new", SHOP },

	/* what cgo puts between Go code and C code */
	{ ROLE_PLUMBING, "_cgo_993bbef9c976_Cfunc__Cmalloc", SHOP, "/tmp/go-build/_cgo_export.c" },
	{ ROLE_PLUMBING, "_cgo_993bbef9c976_Cfunc_open", SHOP, "/tmp/go-build/cgo-gcc-prolog" },
	{ ROLE_PLUMBING, "runtime.asmcgocall", SHOP, "/usr/lib/go-1.19/src/runtime/asm_amd64.s" },
	{ ROLE_PLUMBING, "runtime.asmcgocall.abi0", SHOP }, { ROLE_PLUMBING, "runtime.cgocall", SHOP, "/_/GOROOT/src/runtime/cgocall.go" },
	{ ROLE_PLUMBING, "main._cgo_cmalloc", SHOP, "_cgo_gotypes.go" }, { ROLE_PLUMBING, "main._Cfunc_CString", SHOP, "/b/_cgo_gotypes.go" },
	{ ROLE_PLUMBING, "example.com/shop/v2/cart._Cfunc_open", SHOP }, { ROLE_OWN, "_Cfunc_open", SHOP, "/src/open.c" },
	{ ROLE_OWN, "runtime.cgocall", SHOP, "/src/runtime.d" }, { ROLE_OWN, "_cgo_try_pthread_create", SHOP },
	{ ROLE_OWN, "main.leakString", SHOP, "/src/main.go" }, { ROLE_OWN, "main._Cfunction", SHOP, "_cgo_gotypes.go" },

	{ ROLE_START, "start_thread" }, { ROLE_START, "clone3" }, { ROLE_START, "__libc_start_call_main" },
	{ ROLE_START, "_start" },

	{ ROLE_OWN, "" }, { ROLE_OWN, "main" }, { ROLE_OWN, "mallocate" }, { ROLE_OWN, "my_malloc" },
	{ ROLE_OWN, "free" }, { ROLE_OWN, "_ZN3FoonwEm" }, { ROLE_OWN, "operator newer" },
	{ ROLE_OWN, "mi_alloc_rec_buff" }, { ROLE_OWN, "je_" }, { ROLE_OWN, "__" },
	{ ROLE_OWN, "int f(std::string)" }, { ROLE_OWN, "void shop::add<std::string>(std::string)" },
	{ ROLE_OWN, "shop::std::f()" }, { ROLE_OWN, "standard::f()" }, { ROLE_OWN, "PyObject_Call" },
	{ ROLE_OWN, "PyList_New" }, { ROLE_OWN, "Arena::grow()" }, { ROLE_OWN, "<shop::Cart as core::clone::Clone>::clone" },
	{ ROLE_OWN, "<alloc::string::String as shop::Encode>::encode" }, { ROLE_OWN, "ngx_http_init" },
};

Test(engine_own_frames, are_told_from_wrappers_by_name)
{
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		char base[256];
		struct wrapper_place place = {
			.in_object = wrapper_groups_in_file(functions[i].object ?: ""),
			.source = functions[i].source,
			.has_parameters = function_name_has_parameters(functions[i].function, base),
		};

		function_name_copy(base, functions[i].function, NAME_BASE);
		cr_expect_eq(wrapper_role(wrapper_groups_named(base), &place), functions[i].role, "%s in %s",
			     functions[i].function, functions[i].source ?: functions[i].object ?: "any file");
	}
}

Test(engine_own_frames, are_told_from_the_c_library_by_file)
{
	static const struct {
		enum frame_role role;
		const char *path;
	} files[] = {
		{ ROLE_PLUMBING, LIBC },
		{ ROLE_PLUMBING, LIBC " (deleted)" },
		{ ROLE_PLUMBING, "/lib/ld-musl-x86_64.so.1" },
		{ ROLE_PLUMBING, "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" },
		{ ROLE_PLUMBING, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30" },
		{ ROLE_ALLOCATOR, "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2" },
		{ ROLE_SAMPLER, "/usr/lib/x86_64-linux-gnu/liballocsnap-sampler.so" },
		{ ROLE_SAMPLER, INJECTED },
		{ ROLE_OWN, "/usr/lib/x86_64-linux-gnu/libcrypto.so.3" },
		{ ROLE_OWN, "/opt/shop/libcart.so" },
		{ ROLE_OWN, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		cr_expect_eq(wrapper_role_by_path(files[i].path), files[i].role, "%s", files[i].path);
}

static const struct engine_options by_traceback = { .key_type = KEY_TRACEBACK };

static const struct data_trace traces[] = {
	/* malloc ← operator new ← std:: ← the program */
	{ .size = 1, .frame = { { "m.c", 1, "malloc", LIBC }, { "new.cc", 2, "operator new(unsigned long)" },
				{ "v.h", 3, "std::vector<int>::push_back(int)" },
				{ "src/cart.cc", 4, "shop::add(std::string)" }, { "src/main.cc", 5, "main" } } },
	/* the C library's own functions work for their caller */
	{ .size = 2, .frame = { { "m.c", 1, "malloc", LIBC }, { "f.c", 6, "fopen64", LIBC },
				{ "src/log.cc", 7, "log_open" }, { "src/main.cc", 8, "main" } } },
	/* the thread's function was inlined into std::thread: its frame is kept */
	{ .size = 4, .frame = { { "m.c", 1, "malloc", LIBC }, { "thread", 9, "std::thread::_State::_M_run()" },
				{ "t.c", 10, "start_thread", LIBC }, { "clone3.S", 11, "clone3", LIBC } } },
	/* nothing but wrappers */
	{ .size = 8, .frame = { { "m.c", 1, "malloc", LIBC }, { "new.cc", 2, "operator new(unsigned long)" } } },
};

Test(engine_own_frames, start_tracebacks)
{
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct engine_options options = by_traceback;

	DATA_EXPECT("traceback", NULL, data.snapshot, &options, { "new.cc:2 m.c:1", 8, 1 },
		    { "clone3.S:11 t.c:10 thread:9", 4, 1 }, { "src/main.cc:8 src/log.cc:7", 2, 1 },
		    { "src/main.cc:5 src/cart.cc:4", 1, 1 });
	options.key_type = KEY_LINENO;
	DATA_EXPECT("lineno", NULL, data.snapshot, &options, { "m.c:1", 8, 1 }, { "thread:9", 4, 1 },
		    { "src/log.cc:7", 2, 1 }, { "src/cart.cc:4", 1, 1 });
	options.tracemalloc = true;
	DATA_EXPECT("tracemalloc", NULL, data.snapshot, &options, { "m.c:1", 15, 4 });
	data_release(&data);
}

#define CXX "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"

/* All calls inside the program's own operator new, malloc or #[global_allocator] are its work. */
Test(engine_own_frames, come_after_all_that_the_heap_calls)
{
	static const struct data_trace nested[] = {
		/* take() of the program's operator new, which its library's containers call */
		{ .size = 1, .frame = { { "m", 1, "malloc", LIBC }, { "take", 2, "take(unsigned long)" },
					{ "count", 3, "std::map<int, int>::operator[](int&&)" },
					{ "new", 4, "operator new(unsigned long)" }, { "cart", 5, "cart()" } } },
		/* an allocator inside the allocator: the outermost counts */
		{ .size = 2, .frame = { { "m", 1, "malloc", LIBC }, { "log", 2, "log_call" }, { "m", 3, "malloc", SHOP },
					{ "pool", 4, "grow" }, { "new", 5, "Order::operator new(unsigned long)" },
					{ "order", 6, "order()" } } },
		/* a new_handler is the program's code that the library's operator new calls */
		{ .size = 4, .frame = { { "m", 1, "malloc", LIBC }, { "handler", 2, "on_no_memory()" },
					{ "new", 3, "operator new(unsigned long)", CXX }, { "cart", 4, "cart()" } } },
		/* nothing is known of the caller */
		{ .size = 8, .frame = { { "m", 1, "malloc", LIBC }, { "take", 2, "take(unsigned long)" },
					{ "new", 3, "operator new(unsigned long)" } } },
		/* a thread that only the library's code follows */
		{ .size = 16, .frame = { { "m", 1, "malloc", LIBC }, { "take", 2, "take(unsigned long)" },
					 { "new", 3, "operator new(unsigned long)" },
					 { "thread", 4, "std::thread::_State::_M_run()" }, { "t", 5, "start_thread", LIBC } } },
		{ .size = 32, .frame = { { "m", 1, "malloc", LIBC }, { "count.rs", 2, "<shop::Count as core::alloc::GlobalAlloc>::alloc" },
					 { "a.rs", 3, "__rg_alloc" }, { "a.rs", 4, "alloc::alloc::alloc" },
					 { "cart.rs", 5, "shop::fill" } } },
	};
	const struct engine_options options = { .key_type = KEY_FILENAME };
	static const char *const glob = "take";
	const struct engine_options project = { .key_type = KEY_FILENAME, .project = &glob, .project_nr = 1 };
	struct data_snapshot data = DATA_SNAPSHOT(nested);

	DATA_EXPECT("nested", NULL, data.snapshot, &options, { "cart.rs:0", 32, 1 }, { "thread:0", 16, 1 },
		    { "take:0", 8, 1 }, { "handler:0", 4, 1 }, { "order:0", 2, 1 }, { "cart:0", 1, 1 });
	DATA_EXPECT("project", NULL, data.snapshot, &project, { "cart.rs:0", 32, 1 }, { "thread:0", 16, 1 },
		    { "take:0", 8, 1 }, { "handler:0", 4, 1 }, { "order:0", 2, 1 }, { "cart:0", 1, 1 });
	data_release(&data);
}

/* The second frame says that a signal's handler began there. */
Test(engine_own_frames, of_a_handler_come_before_what_it_interrupted)
{
	static const struct data_trace signalled[] = {
		{ .size = 1, .frame = { { "m", 1, "malloc", LIBC, 8 }, { "handler", 2, "on_signal", SHOP, 16 },
					{ "restore", 3, "__restore_rt", LIBC, 24, .flags = SNAP_FRAME_EXACT },
					{ "take", 4, "take", SHOP, 32, .flags = SNAP_FRAME_EXACT },
					{ "new", 5, "operator new(unsigned long)", SHOP, 40 }, { "cart", 6, "cart", SHOP, 48 } } },
	};
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = DATA_SNAPSHOT(signalled);

	DATA_EXPECT("signalled", NULL, data.snapshot, &options, { "handler:0", 1, 1 });
	data_release(&data);
}

/* AllocSetAlloc of a stripped postgres; a static function that its own code called is none of palloc's. */
Test(engine_own_frames, come_after_nameless_code_of_an_allocator)
{
	static const struct data_trace stripped[] = {
		{ .size = 1, .frame = { { "libc", 0, "malloc", LIBC, 8 }, { "pg", 0, NULL, "/bin/pg", 0x10 },
					{ "pg", 0, NULL, "/bin/pg", 0x20 }, { "pg", 0, "palloc", "/bin/pg", 0x30 },
					{ "own", 0, "datumCopy", "/bin/pg", 0x40 } } },
		{ .size = 2, .frame = { { "libc", 0, "malloc", LIBC, 8 }, { "static", 0, NULL, "/bin/pg", 0x50 },
					{ "own", 0, "datumCopy", "/bin/pg", 0x40 } } },
		{ .size = 4, .frame = { { "libc", 0, "malloc", LIBC, 8 }, { "ssl", 0, NULL, "/lib/ssl", 0x60 },
					{ "pg", 0, "palloc", "/bin/pg", 0x30 }, { "m", 0, "main", "/bin/pg", 0x70 } } },
		{ .size = 8, .frame = { { "libc", 0, "malloc", LIBC, 8 }, { "end", 0, NULL, "/bin/pg", 0x80 } } },
		/* As in a fleet: code without a name is of one build, a function of any. */
		{ .size = 16, .frame = { { "libc", 0, "malloc", LIBC, 8 }, { "pg", 0, NULL, "/bin/pg", 0x10, .build_id = "b1" },
					 { "pg", 0, "palloc", "/bin/pg", 0 }, { "own2", 0, "datumCopy", "/bin/pg", 0 } } },
		{ .size = 32, .frame = { { "libc", 0, "malloc", LIBC, 8 },
					 { "other", 0, NULL, "/bin/pg", 0x10, .build_id = "b1" },
					 { "pg", 0, "palloc", "/bin/pg", 0x30, .build_id = "b2" },
					 { "own", 0, "datumCopy", "/bin/pg", 0x40 } } },
	};
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = DATA_SNAPSHOT(stripped);

	DATA_EXPECT("stripped", NULL, data.snapshot, &options, { "other:0", 32, 1 }, { "own2:0", 16, 1 }, { "end:0", 8, 1 },
		    { "ssl:0", 4, 1 }, { "static:0", 2, 1 }, { "own:0", 1, 1 });
	data_release(&data);
}

/* The probe lies in tell(), which was inlined into take(). */
Test(engine_own_frames, come_after_the_sampler_of_the_process)
{
	static const struct data_trace samples[] = {
		{ .size = 1, .frame = { { "tell", 1, "tell", SHOP, 8 }, { "take", 2, "take", SHOP, 8 },
					{ "cart", 3, "cart", SHOP, 16 }, { "main", 4, "main", SHOP, 24 } } },
		{ .size = 2, .frame = { { "tell", 1, "tell", SHOP, 8 }, { "pool", 5, "pool_take", SHOP, 32 },
					{ "new", 6, "operator new(unsigned long)", SHOP, 40 },
					{ "list", 7, "list", SHOP, 48 }, { "main", 4, "main", SHOP, 24 } } },
		{ .size = 4, .frame = { { "lib", 8, "other", "/lib/other", 8 }, { "main", 4, "main", SHOP, 24 } } },
		{ .size = 8, .frame = { { "tell", 1, "tell", SHOP, 8 } } },
	};
	static const char *const metadata[] = { "sampler", SHOP, NULL };
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = data_snapshot_with(samples, ARRAY_SIZE(samples), metadata);

	DATA_EXPECT("sampler", NULL, data.snapshot, &options, { "tell:0", 8, 1 }, { "lib:0", 4, 1 }, { "list:0", 2, 1 },
		    { "cart:0", 1, 1 });
	data_release(&data);
	data = DATA_SNAPSHOT(samples);
	DATA_EXPECT("none", NULL, data.snapshot, &options, { "tell:0", 9, 2 }, { "lib:0", 4, 1 }, { "list:0", 2, 1 });
	data_release(&data);
}

/* A frame of it is never the answer, however little else is known; two files may have its name. */
Test(engine_own_frames, never_are_those_of_allocsnap)
{
	static const struct data_trace samples[] = {
		{ .size = 1, .frame = { { "s", 0, "fire_alloc", INJECTED, 8 }, { "s", 0, "slow", INJECTED, 16 },
					{ "cart", 3, "cart", SHOP, 16 }, { "new", 6, "operator new(unsigned long)", SHOP, 40 },
					{ "main", 4, "main", SHOP, 24 } } },
		{ .size = 2, .frame = { { "s", 0, "fire_alloc", INJECTED, 8 }, { "s", 0, "slow", INJECTED, 16 },
					{ "new", 6, "operator new(unsigned long)", SHOP, 40 } } },
		{ .size = 4, .frame = { { "s", 0, "fire_alloc", INJECTED, 8 }, { "s", 0, "slow", INJECTED, 16 } } },
		{ .size = 8, .frame = { { "p", 1, "fire_alloc", "/opt/liballocsnap-sampler.so", 8 } } },
	};
	static const char *const metadata[] = { "sampler", INJECTED, NULL };
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = data_snapshot_with(samples, ARRAY_SIZE(samples), metadata);

	DATA_EXPECT("sampler", NULL, data.snapshot, &options, { "<unknown>:0", 12, 2 }, { "new:0", 2, 1 }, { "main:0", 1, 1 });
	data_release(&data);
}

#define PYTHON "/usr/bin/python3.11"

/* CPython's own functions work for Python code, a library's do not. */
Test(engine_own_frames, come_after_cpython_where_python_code_has_frames)
{
	static const struct data_trace blocks[] = {
		{ .size = 1, .frame = { { "dict", 0, "PyDict_New", PYTHON, 8 }, { "static", 0, NULL, PYTHON, 16 },
					{ "app.py", 3, "load" }, { "eval", 0, "PyEval_EvalCode", PYTHON, 24 } } },
		{ .size = 2, .frame = { { "malloc", 0, "PyMem_Malloc", PYTHON, 32 }, { "lib", 0, "connect", "/lib/sql.so", 8 },
					{ "call", 0, "PyObject_Call", PYTHON, 40 }, { "app.py", 4, "load" } } },
		{ .size = 4, .frame = { { "dict", 0, "PyDict_New", PYTHON, 8 }, { "init", 0, "Py_Main", PYTHON, 48 } } },
	};
	static const char *const mixed[] = { "python_frames", "mixed", "python_file", PYTHON, NULL };
	static const char *const native[] = { "python_frames", "native", "python_file", PYTHON, NULL };
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = data_snapshot_with(blocks, ARRAY_SIZE(blocks), mixed);

	DATA_EXPECT("mixed", NULL, data.snapshot, &options, { "dict:0", 4, 1 }, { "lib:0", 2, 1 }, { "app.py:0", 1, 1 });
	data_release(&data);
	data = data_snapshot_with(blocks, ARRAY_SIZE(blocks), native);
	DATA_EXPECT("native", NULL, data.snapshot, &options, { "dict:0", 5, 2 }, { "lib:0", 2, 1 });
	data_release(&data);
}

#define NODE "/usr/bin/node"
#define MADE "[anonymous code]"

/* V8 works for JavaScript that has names; so does node's own JavaScript. A library that JavaScript calls does not. */
Test(engine_own_frames, come_after_the_runtime_of_code_made_at_run_time)
{
	static const struct data_trace named[] = {
		{ .size = 1, .frame = { { "new", 0, "node::Allocate", NODE, 8 }, { MADE, 0, "JS:~alloc node:buffer:1:2", NULL, 0x7f10 },
					{ MADE, 0, "JS:*leak /srv/a.js:1:2", NULL, 0x7f20 }, { "entry", 0, "Builtins_JSEntry", NODE, 16 },
					{ "start", 0, "_start", NODE, 24 } } },
		{ .size = 2, .frame = { { "lib", 0, "connect", "/srv/sql.node", 8 }, { MADE, 0, "JS:*leak /srv/a.js:1:2", NULL, 0x7f20 },
					{ "entry", 0, "Builtins_JSEntry", NODE, 16 } } },
		{ .size = 4, .frame = { { "new", 0, "node::Allocate", NODE, 8 }, { "loop", 0, "uv_run", NODE, 32 },
					{ "start", 0, "_start", NODE, 24 } } },
	};
	static const struct data_trace nameless = {
		.size = 1, .frame = { { "new", 0, "node::Allocate", NODE, 8 }, { MADE, 0, NULL, NULL, 0x7f20 },
				      { "entry", 0, "Builtins_JSEntry", NODE, 16 } },
	};
	const struct engine_options options = { .key_type = KEY_FILENAME };
	struct data_snapshot data = data_snapshot_with(named, ARRAY_SIZE(named), (const char *const[]){ NULL });

	DATA_EXPECT("named", NULL, data.snapshot, &options, { "new:0", 4, 1 }, { "lib:0", 2, 1 }, { MADE ":0", 1, 1 });
	data_release(&data);
	data = data_snapshot(&nameless, 1, 0);
	DATA_EXPECT("without names", NULL, data.snapshot, &options, { "new:0", 1, 1 });
	data_release(&data);
}

Test(engine_own_frames, can_be_skipped_by_file_and_object)
{
	static const char *const globs[][1] = {
		{ "src/cart.cc" }, { "src" }, { "sr*" }, { "*.cc" }, { "src/*" }, { "cart.cc" }, { "cart" }, { "main" },
	};
	static const char *const rows[ARRAY_SIZE(globs)] = {
		"src/main.cc:5", "src/cart.cc:4", "src/cart.cc:4", "v.h:3", "v.h:3", "src/main.cc:5", "src/cart.cc:4",
		"src/cart.cc:4",
	};
	struct data_snapshot data = data_snapshot(&traces[0], 1, 0);

	for (size_t i = 0; i < ARRAY_SIZE(globs); i++) {
		struct engine_options options = { .skip = globs[i], .skip_nr = 1 };

		DATA_EXPECT(globs[i][0], NULL, data.snapshot, &options, { rows[i], 1, 1 });
	}
	data_release(&data);
}

Test(engine_own_frames, of_a_project_come_first)
{
	static const struct data_trace trace = {
		.size = 1,
		.frame = { { "m.c", 1, "malloc", LIBC }, { "/opt/lib/json.c", 2, "json_new" },
			   { "/home/me/shop/util/mem.c", 3, "xmalloc" }, { "/home/me/shop/cart.c", 4, "cart" },
			   { "/home/me/main.c", 5, "main", "/home/me/shop/bin/shopd" } },
	};
	static const struct {
		const char *glob, *row;
	} rows[] = {
		{ "/home/me/shop", "/home/me/shop/cart.c:4" }, { "*/shop", "/home/me/shop/cart.c:4" },
		{ "*/cart.c", "/home/me/shop/cart.c:4" }, { "*/bin/shopd", "/home/me/main.c:5" },
		{ "/srv", "/opt/lib/json.c:2" },
	};
	struct data_snapshot data = data_snapshot(&trace, 1, 0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct engine_options options = { .project = &rows[i].glob, .project_nr = 1 };

		DATA_EXPECT(rows[i].glob, NULL, data.snapshot, &options, { rows[i].row, 1, 1 });
	}
	data_release(&data);
}

static const char *head_of(const struct data_trace *trace, const struct engine_options *options)
{
	struct data_snapshot data = data_snapshot(trace, 1, 0);
	struct statistics *statistics;
	static char filename[64];

	cr_assert_eq(snapshot_statistics(data.snapshot, options, &statistics, NULL), 0);
	strcpy(filename, statistics->statistic[0].head->filename);
	statistics_free(statistics);
	data_release(&data);
	return filename;
}

Test(engine_own_frames, name_a_traceback_except_one_of_python)
{
	static const struct data_trace python = { .frame = { { "a.py", 2 }, { "b.py", 4 } } };
	static const struct data_trace stripped = { .frame = { { "/bin/a", 0, NULL, "/bin/a", 8 }, { "b.c", 4 } } };
	struct engine_options options = by_traceback;

	cr_expect_str_eq(head_of(&traces[0], &options), "src/cart.cc");
	cr_expect_str_eq(head_of(&stripped, &options), "/bin/a");
	cr_expect_str_eq(head_of(&python, &options), "b.py");
	options.tracemalloc = true;
	cr_expect_str_eq(head_of(&traces[0], &options), "src/main.cc");
	cr_expect_str_eq(head_of(&stripped, &options), "b.c");
}

/* 64 functions of one template, allocating in the same line: one line, 64 tracebacks. */
#define CODECS 64
Test(engine_own_frames, of_a_template_keep_their_names)
{
	static char name[CODECS][32];
	static struct data_trace codec[CODECS];
	struct engine_options options = { .key_type = KEY_LINENO };
	struct statistics *statistics;
	struct data_snapshot data;

	for (unsigned int i = 0; i < CODECS; i++) {
		snprintf(name[i], sizeof(name[i]), "Codec<%u>::decode()", i);
		codec[i] = (struct data_trace){ .size = i + 1, .frame = { { "codec.cc", 7, name[i] },
									  { "main.cc", 9, "main" } } };
	}
	data = DATA_SNAPSHOT(codec);
	cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
	cr_assert_eq(statistics->statistic_nr, 1);
	cr_expect(statistics->statistic[0].frame->has_variants);
	cr_expect_str_eq(statistics->statistic[0].frame->function, "Codec<0>::decode()");
	statistics_free(statistics);

	options.key_type = KEY_TRACEBACK;
	cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
	cr_assert_eq(statistics->statistic_nr, CODECS);
	for (unsigned int i = 0; i < CODECS; i++) {
		cr_expect_str_eq(statistics->statistic[i].head->function, name[CODECS - 1 - i]);
		cr_expect_not(statistics->statistic[i].head->has_variants);
		cr_expect_eq(statistics->statistic[i].cost.size, CODECS - i);
	}
	statistics_free(statistics);

	options.tracemalloc = true;
	DATA_EXPECT("tracemalloc", NULL, data.snapshot, &options,
		    { "main.cc:9 codec.cc:7", CODECS * (CODECS + 1) / 2, CODECS });
	data_release(&data);
}

Test(engine_own_frames, source_files_of_python_that_are_the_programs_own)
{
	static const char *const library[] = {
		"/usr/lib/python3.11/json/decoder.py", "/usr/lib/python3/dist-packages/flask/app.py",
		"/opt/venv/lib/python3.13t/site-packages/werkzeug/serving.py", "/usr/lib64/python3.9/abc.py",
		"<frozen importlib._bootstrap>",
	};
	static const char *const own[] = {
		"/srv/shop/app.py", "/srv/lib/cart.py", "app.py", "/usr/lib/python3.11/lib-dynload/_json.so", "<string>",
		"/home/me/python3/orders.py", "",
	};

	for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); i++)
		cr_expect(wrapper_is_python_library(library[i]), "%s", library[i]);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		cr_expect_not(wrapper_is_python_library(own[i]), "%s", own[i]);
}
