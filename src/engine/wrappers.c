// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/wrappers.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "engine/pattern.h"

/* ---- malloc and related functions under the prefixes of their libraries -------------------------- */

static const char *const prefixes[] = {
	"",	 "__",	  "__libc_", "__GI_",	 "__GI___", "__GI___libc_", "je_",
	"_rjem_", "tc_", "mi_",	     "mi_heap_", "__interceptor_", "___interceptor_",
};

static const char *const heap_prefixed[] = {
	"malloc",  "calloc", "realloc", "reallocarray", "memalign", "aligned_alloc", "posix_memalign",
	"valloc",  "pvalloc", "mallocx", "rallocx",
};

static const char *const prefixed[] = {
	"mmap", "mmap64", "mremap", "sbrk", "brk", "strdup", "strndup", "wcsdup", "asprintf", "vasprintf",
	"asprintf_chk", "vasprintf_chk", "vasprintf_internal",
};

static bool is_listed_word(const char *rest, const char *const *word, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (word[i][0] == rest[0] && !strcmp(word[i], rest))
			return true;
	return false;
}

static bool is_prefixed(const char *base, const char *const *word, size_t nr)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const char *prefix = prefixes[i];
		size_t len = strlen(prefix);

		if ((!len || prefix[0] == base[0]) && !strncmp(base, prefix, len) && is_listed_word(base + len, word, nr))
			return true;
	}
	return false;
}

/* ---- functions by name ------------------------------------------------------------------------------ */

/* Patterns (engine/pattern.h), compared with the function's NAME_BASE. The global operator new is demangled or not. */
static const char *const operators[] = { "operator new", "operator new[[]]", "_Znw*", "_Zna*" };

/* Rust's libraries call these for memory; a program may define them by #[global_allocator]. */
static const char *const rust_heap[] = {
	"__rust_alloc*", "__rust_realloc", "__rg_alloc*", "__rg_realloc", "__rdl_alloc*", "__rdl_realloc",
	"__rustc::__r*alloc*",
};

static const char *const allocators[] = {
	/* glibc, musl, and the entry points of tcmalloc and mimalloc that have names of their own */
	"_int_malloc", "_int_realloc", "_int_memalign", "_mid_memalign", "sysmalloc*", "__libc_malloc_impl",
	"__*default_morecore", "__glibc_morecore",
	"tc_new*", "tc_malloc_skip_new_handler",
	"mi_zalloc*", "mi_mallocn", "mi_malloc_*", "mi_calloc_*", "mi_realloc_*", "mi_heap_zalloc*",
	"mi_heap_malloc_*", "mi_heap_calloc_*", "mi_heap_realloc_*", "mi_new", "mi_new_n", "mi_new_nothrow",
	"mi_new_aligned*", "mi_heap_alloc_new*", "_mi_malloc_generic", "_mi_heap_malloc_zero*",

	/* CPython: obmalloc.c, gcmodule.c, and the functions that allocate an object of a type */
	"PyMem_Malloc", "PyMem_Calloc", "PyMem_Realloc", "PyMem_Raw*alloc", "_PyMem_*alloc", "_PyMem_*Alloc",
	"_PyMem_Raw*", "_PyMem_Debug*", "_PyMem_*[sS]trdup", "PyObject_Malloc", "PyObject_Calloc",
	"PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc", "_PyObject_Arena*",
	"_PyObject_Debug*alloc", "pymalloc_alloc", "pymalloc_realloc",
	"_PyObject_GC_*", "_PyObject_GC_New*", "PyObject_GC_New*", "_PyObject_New*", "PyObject_New*",
	"PyType_GenericAlloc", "_PyType_AllocNoTrack",

	/* functions of this name in many C programs: GNU, redis, X, git, busybox, PostgreSQL */
	"xmalloc*", "xnmalloc", "xzalloc*", "xcalloc*", "xrealloc*", "xnrealloc", "x2realloc", "x2nrealloc",
	"xreallocarray", "xpalloc", "ximalloc", "xicalloc", "xirealloc*", "xstrdup*", "xstrndup*", "xmemdup*",
	"xmemdupz", "xasprintf", "xvasprintf", "do_xmalloc", "zmalloc*", "zcalloc*", "zrealloc*", "zstrdup*",
	"ztrymalloc*", "ztrycalloc*", "ztryrealloc*", "palloc*", "repalloc*", "pstrdup", "pnstrdup", "psprintf",
	"pg_malloc*", "pg_realloc*", "pg_strdup",

	/* nginx */
	"ngx_alloc", "ngx_calloc", "ngx_memalign", "ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc", "ngx_pmemalign",
	"ngx_create_pool", "ngx_pstrdup",

	/* OpenSSL, FFmpeg, libuv, SQLite */
	"CRYPTO_*alloc*", "CRYPTO_*dup", "CRYPTO_secure_*alloc", "BUF_*dup",
	"av_malloc*", "av_mallocz*", "av_calloc", "av_realloc*", "av_fast_*alloc*", "av_strdup", "av_strndup",
	"av_memdup", "av_dynarray*", "av_buffer_alloc*", "av_buffer_realloc",
	"uv__malloc", "uv__calloc", "uv__realloc*", "uv__strdup", "uv__strndup",
	"sqlite3Malloc*", "sqlite3_malloc*", "sqlite3MemMalloc", "sqlite3MemRealloc", "sqlite3Realloc*",
	"sqlite3_realloc*", "sqlite3DbMalloc*", "sqlite3DbRealloc*", "sqlite3DbStr*Dup", "sqlite3_*mprintf",
	"sqlite3*MPrintf", "mallocWithAlarm", "dbMallocRawFinish", "dbReallocFinish",

	/* interpreters and libraries of C */
	"ruby_x*alloc*", "objspace_x*alloc*", "Perl_safesys*alloc", "_emalloc*", "_ecalloc", "_erealloc*",
	"_estr*dup", "_safe_*alloc", "__zend_*alloc", "zend_mm_*alloc*", "luaM_*", "l_alloc", "Tcl_Alloc",
	"Tcl_Realloc", "TclpAlloc", "TclpRealloc", "xmlMallocLoc", "xmlReallocLoc", "xmlMemMalloc", "_talloc_*",
	"talloc_*", "isc__mem_*", "greedy_realloc*", "malloc_multiply", "memdup*",
};

/* Rust's <[u8]>::to_vec is a name in no other language. C++: a program's namespace cannot be called std. */
static const char *const plumbing[] = {
	"std::*", "__gnu_cxx::*", "__cxxabiv1::*", "boost::container::*", "boost::unordered::*",
	"boost::make_shared", "boost::allocate_shared", "boost::detail::*", "absl::*container_internal::*",
	"QArrayData::*", "QListData::*", "<[[]*", "<str>::*",
};

/* Libraries that every Rust program has; std:: is above. */
static const char *const rust_allocators[] = { "alloc::alloc::*", "std::alloc::*", "std::sys::alloc::*" };
static const char *const rust_plumbing[] = { "core::*", "alloc::*", "hashbrown::*" };

/* Stubs between Go code and the C code that it calls. Those in Go are functions of the package that calls. */
static const char *const cgo_plumbing[] = {
	"_cgo_*_Cfunc_*", "_Cfunc_*", "_cgo_cmalloc*", "runtime.cgocall", "runtime.asmcgocall*",
};
static const char *const cgo_files[] = {
	"*_cgo_gotypes.go", "*/cgo-gcc-prolog", "*/_cgo_export.c", "*/runtime/cgocall.go", "*/runtime/asm_*.s",
};

/* The runtime allocates for maps, strings and slices of the program. */
static const char *const go_plumbing[] = { "runtime.*", "internal/runtime/*" };
static const char *const go_files[] = { "*/runtime/*.go", "*/runtime/*.s", "runtime/*.go", "runtime/*.s" };

static const char *const cpython_allocators[] = { "new_arena", "allocate_from_new_pool", "gc_alloc" };
static const char *const cpython_files[] = { "*/python3*", "*/libpython3*.so*", "*/obmalloc.c", "*/gcmodule.c" };

static const char *const glib_allocators[] = {
	"g_malloc*", "g_try_malloc*", "g_calloc*", "g_realloc*", "g_try_realloc*", "g_slice_*", "g_aligned_alloc*",
	"g_strdup*", "g_strndup", "g_memdup*", "g_strconcat", "g_strjoin*", "g_vasprintf", "g_strnfill",
	"magazine_*", "slab_allocator_*", "thread_memory_magazine*", "standard_malloc", "standard_calloc",
};
static const char *const glib_plumbing[] = {
	"g_array_*", "g_ptr_array_*", "g_byte_array_*", "g_string_*", "g_list_*", "g_slist_*", "g_queue_*",
};
static const char *const glib_files[] = { "*/libglib-2.0.so*", "*/glib/g*.c" };

static const char *const postgres_allocators[] = {
	"MemoryContextAlloc*", "MemoryContextStrdup", "AllocSet*", "SlabAlloc*", "GenerationAlloc*", "BumpAlloc*",
};
static const char *const postgres_files[] = { "*/postgres", "*/postgres (deleted)", "*/utils/mmgr/*.c" };

static const char *const apr_allocators[] = {
	"apr_palloc*", "apr_pcalloc*", "apr_pstr*dup", "apr_psprintf", "apr_pvsprintf", "apr_allocator_alloc",
	"allocator_alloc",
};
static const char *const apr_files[] = { "*/libapr*.so*", "*/apr_*.c" };

static const char *const jvm_allocators[] = {
	"os::malloc", "os::realloc", "os::strdup*", "os::reserve_memory*", "os::pd_reserve_memory*",
	"AllocateHeap", "ReallocateHeap", "Arena::*", "Chunk::*", "ChunkPool::*", "ArrayAllocator::*",
	"MmapArrayAllocator::*", "MallocArrayAllocator::*", "resource_*allocate_bytes", "GrowableArray*",
};
static const char *const jvm_files[] = { "*/libjvm.so*" };

static const char *const starts[] = {
	"_start", "__libc_start_main*", "__libc_start_call_main", "start_thread", "clone", "__clone", "clone3",
	"__clone3", "execute_native_thread_routine", "_dl_start_user", "_dl_start", "call_init*", "_dl_init",
	"g_thread_proxy", "thread_native_entry",
};

/* ---- functions by file ------------------------------------------------------------------------------- */

static const char *const plumbing_path[] = {
	"*/libc.so.6*", "*/libc-[0-9]*.so*", "*/libpthread[-.]*", "*/ld-linux*", "*/ld-[0-9]*.so*", "*/ld-musl-*",
	"*/libstdc++.so*", "*/libc++.so*", "*/libc++abi.so*", "*/libgcc_s.so*",
};

static const char *const allocator_path[] = {
	"*/libjemalloc.so*", "*/libtcmalloc*.so*", "*/libmimalloc*.so*",
};

static const char *const sampler_path[] = {
	"*/liballocsnap-sampler*.so*", "/memfd:allocsnap-sampler*", "/memfd:allocsnap-hooks*",
};

static bool matches_wrapper_row(const char *const *row, size_t nr, const char *base)
{
	for (size_t i = 0; i < nr; i++)
		if ((row[i][0] == base[0] || row[i][0] == '*') && pattern_matches(row[i], base))
			return true;
	return false;
}

/* ---- the table ------------------------------------------------------------------------------------------ */

#define LIST(list) list, ARRAY_SIZE(list)

/* Patterns of names, and where such a name means this. */
static const struct wrapper_group {
	enum frame_role role;
	const char *const *name;
	size_t name_nr;
	const char *const *file; /* files of code or of source; NULL: any */
	size_t file_nr;
	bool has_prefix; /* name[] are words, to which prefixes[] belong */
	bool is_rust;    /* only functions of Rust */
	bool if_unknown; /* also if the source file is not known */
	bool is_cxx_new;
} groups[] = {
	{ ROLE_HEAP, LIST(heap_prefixed), .has_prefix = true },
	{ ROLE_HEAP, LIST(operators), .is_cxx_new = true },
	{ ROLE_HEAP, LIST(rust_heap) },
	{ ROLE_ALLOCATOR, LIST(prefixed), .has_prefix = true },
	{ ROLE_ALLOCATOR, LIST(allocators) },
	{ ROLE_ALLOCATOR, LIST(rust_allocators), .is_rust = true },
	{ ROLE_ALLOCATOR, LIST(cpython_allocators), LIST(cpython_files) },
	{ ROLE_ALLOCATOR, LIST(glib_allocators), LIST(glib_files) },
	{ ROLE_ALLOCATOR, LIST(postgres_allocators), LIST(postgres_files) },
	{ ROLE_ALLOCATOR, LIST(apr_allocators), LIST(apr_files) },
	{ ROLE_ALLOCATOR, LIST(jvm_allocators), LIST(jvm_files) },
	{ ROLE_PLUMBING, LIST(plumbing) },
	{ ROLE_PLUMBING, LIST(rust_plumbing), .is_rust = true },
	{ ROLE_PLUMBING, LIST(glib_plumbing), LIST(glib_files) },
	{ ROLE_PLUMBING, LIST(cgo_plumbing), LIST(cgo_files), .if_unknown = true },
	{ ROLE_PLUMBING, LIST(go_plumbing), LIST(go_files) },
	{ ROLE_START, LIST(starts) },
};

_Static_assert(ARRAY_SIZE(groups) < 32, "a set of groups is 32 bits");

static bool group_has_name(const struct wrapper_group *group, const char *base)
{
	return group->has_prefix ? is_prefixed(base, group->name, group->name_nr) :
				   matches_wrapper_row(group->name, group->name_nr, base);
}

/* ---- the first two bytes of all names in the table ------------------------------------------------------ */

/* All names of a snapshot are looked up, and few of them are in the table: this tells most of the others apart. */
static uint64_t known_pair[(1 << 16) / 64];
static pthread_once_t known_pairs_once = PTHREAD_ONCE_INIT;

static uint16_t pair_of(const char *name)
{
	return (uint8_t)name[0] << 8 | (uint8_t)name[1];
}

static void add_pair(const char *name)
{
	known_pair[pair_of(name) / 64] |= 1ull << pair_of(name) % 64;
}

/* The second byte of a pattern may stand for any. */
static void add_pairs_of_patterns(const char *const *row, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (row[i][1] && !strchr("*?[", row[i][1]))
			add_pair(row[i]);
		else
			for (unsigned int second = 0; second < 256; second++)
				add_pair((const char[]){ row[i][0], second });
	}
}

static void add_known_pairs(void)
{
	for (size_t i = 1; i < ARRAY_SIZE(prefixes); i++)
		add_pair(prefixes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		add_pairs_of_patterns(groups[i].name, groups[i].name_nr);
}

static bool may_be_listed(const char *base)
{
	pthread_once(&known_pairs_once, add_known_pairs);
	return known_pair[pair_of(base) / 64] >> pair_of(base) % 64 & 1;
}

/* ---- the whole ----------------------------------------------------------------------------------------- */

static bool name_ends_with(const char *name, const char *end)
{
	size_t len = strlen(name), end_len = strlen(end);

	return len >= end_len && !strcmp(name + len - end_len, end);
}

static bool is_new_of_class(const char *base)
{
	return name_ends_with(base, "::operator new") || name_ends_with(base, "::operator new[]");
}

/* "main._Cfunc_f" without the package. */
static const char *name_in_package(const char *base)
{
	const char *at = strstr(base, "._Cfunc_") ?: strstr(base, "._cgo_cmalloc");

	return at ? at + 1 : base;
}

uint32_t wrapper_groups_named(const char *base)
{
	uint32_t set = 0;

	base = *base && is_new_of_class(base) ? "operator new" : name_in_package(base);
	if (!*base || !may_be_listed(base))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		set |= (uint32_t)group_has_name(&groups[i], base) << i;
	return set;
}

uint32_t wrapper_groups_in_file(const char *path)
{
	uint32_t set = 0;

	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		set |= (uint32_t)matches_wrapper_row(groups[i].file, groups[i].file_nr, path) << i;
	return set;
}

/*
 * The language that a name is of is known by its source file, or else by its form: a name demangled from C++ has a list
 * of parameters, one from Rust has none.
 */
static bool is_rust_function(const struct wrapper_place *place)
{
	return place->source ? name_ends_with(place->source, ".rs") : !place->has_parameters;
}

static bool group_applies(size_t i, const struct wrapper_place *place)
{
	if (groups[i].is_rust)
		return is_rust_function(place);
	if (!groups[i].file || place->in_object >> i & 1)
		return true;
	return place->source ? matches_wrapper_row(groups[i].file, groups[i].file_nr, place->source) :
			       groups[i].if_unknown;
}

enum frame_role wrapper_role(uint32_t named, const struct wrapper_place *place)
{
	enum frame_role role = ROLE_OWN;

	for (size_t i = 0; named && i < ARRAY_SIZE(groups); i++)
		if (named >> i & 1 && groups[i].role > role && group_applies(i, place))
			role = groups[i].role;
	return role;
}

bool wrapper_is_cxx_new(uint32_t named)
{
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (groups[i].is_cxx_new)
			return named >> i & 1;
	return false;
}

bool wrapper_is_python_library(const char *source)
{
	return pattern_matches("*/lib/python3*/*.py", source) || pattern_matches("*/lib64/python3*/*.py", source) ||
	       pattern_matches("<frozen *>", source);
}

enum frame_role wrapper_role_by_path(const char *path)
{
	if (matches_wrapper_row(sampler_path, ARRAY_SIZE(sampler_path), path))
		return ROLE_SAMPLER;
	if (matches_wrapper_row(allocator_path, ARRAY_SIZE(allocator_path), path))
		return ROLE_ALLOCATOR;
	return matches_wrapper_row(plumbing_path, ARRAY_SIZE(plumbing_path), path) ? ROLE_PLUMBING : ROLE_OWN;
}
