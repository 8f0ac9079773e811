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

static const char *const prefixed[] = {
	"malloc",  "calloc",	"realloc",	  "reallocarray",   "memalign",	    "aligned_alloc", "posix_memalign",
	"valloc",  "pvalloc",	"mallocx",	  "rallocx",	    "mmap",	    "mmap64",	     "mremap",
	"sbrk",	   "brk",	"strdup",	  "strndup",	    "wcsdup",	    "asprintf",	     "vasprintf",
	"asprintf_chk", "vasprintf_chk", "vasprintf_internal",
};

static bool is_in_prefixed(const char *rest)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixed); i++)
		if (prefixed[i][0] == rest[0] && !strcmp(prefixed[i], rest))
			return true;
	return false;
}

static bool is_prefixed(const char *base)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		const char *prefix = prefixes[i];
		size_t len = strlen(prefix);

		if ((!len || prefix[0] == base[0]) && !strncmp(base, prefix, len) && is_in_prefixed(base + len))
			return true;
	}
	return false;
}

/* ---- functions by name ------------------------------------------------------------------------------ */

/* Patterns (engine/pattern.h), compared with the function's NAME_BASE. */
static const char *const allocators[] = {
	/* glibc, musl, and the entry points of tcmalloc and mimalloc that have names of their own */
	"_int_malloc", "_int_realloc", "_int_memalign", "_mid_memalign", "sysmalloc*", "__libc_malloc_impl",
	"__*default_morecore", "__glibc_morecore",
	"tc_new*", "tc_malloc_skip_new_handler",
	"mi_zalloc*", "mi_mallocn", "mi_malloc_*", "mi_calloc_*", "mi_realloc_*", "mi_heap_zalloc*",
	"mi_heap_malloc_*", "mi_heap_calloc_*", "mi_heap_realloc_*", "mi_new", "mi_new_n", "mi_new_nothrow",
	"mi_new_aligned*", "mi_heap_alloc_new*", "_mi_malloc_generic", "_mi_heap_malloc_zero*",

	/* C++: the global operator new, demangled or not; that of a class is is_new_of_class() */
	"operator new", "operator new[[]]", "_Znw*", "_Zna*",

	/* Rust */
	"__rust_alloc*", "__rust_realloc", "__rg_alloc*", "__rg_realloc", "__rdl_alloc*", "__rdl_realloc",
	"__rustc::__r*alloc*", "alloc::alloc::*", "std::alloc::*", "std::sys::alloc::*",

	/* CPython: obmalloc.c, gcmodule.c, and the functions that allocate an object of a type */
	"PyMem_Malloc", "PyMem_Calloc", "PyMem_Realloc", "PyMem_Raw*alloc", "_PyMem_*alloc", "_PyMem_*Alloc",
	"_PyMem_Raw*", "_PyMem_Debug*", "_PyMem_*[sS]trdup", "PyObject_Malloc", "PyObject_Calloc",
	"PyObject_Realloc", "_PyObject_Malloc", "_PyObject_Calloc", "_PyObject_Realloc", "_PyObject_Arena*",
	"_PyObject_Debug*alloc", "pymalloc_alloc", "pymalloc_realloc", "allocate_from_new_pool", "new_arena",
	"_PyObject_GC_*", "_PyObject_GC_New*", "PyObject_GC_New*", "_PyObject_New*", "PyObject_New*",
	"PyType_GenericAlloc", "_PyType_AllocNoTrack", "gc_alloc",

	/* functions of this name in many C programs: GNU, redis, X, git, busybox */
	"xmalloc*", "xnmalloc", "xzalloc*", "xcalloc*", "xrealloc*", "xnrealloc", "x2realloc", "x2nrealloc",
	"xreallocarray", "xpalloc", "ximalloc", "xicalloc", "xirealloc*", "xstrdup*", "xstrndup*", "xmemdup*",
	"xmemdupz", "xasprintf", "xvasprintf", "do_xmalloc", "zmalloc*", "zcalloc*", "zrealloc*", "zstrdup*",
	"ztrymalloc*", "ztrycalloc*", "ztryrealloc*",

	/* GLib */
	"g_malloc*", "g_try_malloc*", "g_calloc*", "g_realloc*", "g_try_realloc*", "g_slice_*", "g_aligned_alloc*",
	"g_strdup*", "g_strndup", "g_memdup*", "g_strconcat", "g_strjoin*", "g_vasprintf", "g_strnfill",
	"magazine_*", "slab_allocator_*", "thread_memory_magazine*", "standard_malloc", "standard_calloc",

	/* PostgreSQL */
	"palloc*", "repalloc*", "pstrdup", "pnstrdup", "psprintf", "MemoryContextAlloc*", "MemoryContextStrdup",
	"AllocSet*", "SlabAlloc*", "GenerationAlloc*", "BumpAlloc*", "pg_malloc*", "pg_realloc*", "pg_strdup",

	/* nginx, Apache */
	"ngx_alloc", "ngx_calloc", "ngx_memalign", "ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc", "ngx_pmemalign",
	"ngx_create_pool", "ngx_pstrdup", "apr_palloc*", "apr_pcalloc*", "apr_pstr*dup", "apr_psprintf",
	"apr_pvsprintf", "apr_allocator_alloc", "allocator_alloc",

	/* the JVM */
	"os::malloc", "os::realloc", "os::strdup*", "os::reserve_memory*", "os::pd_reserve_memory*",
	"AllocateHeap", "ReallocateHeap",

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

static const char *const plumbing[] = {
	/* C++; a program's namespace cannot be called std */
	"std::*", "__gnu_cxx::*", "__cxxabiv1::*", "boost::container::*", "boost::unordered::*",
	"boost::make_shared", "boost::allocate_shared", "boost::detail::*", "absl::*container_internal::*",
	"QArrayData::*", "QListData::*",

	/* Rust: libraries that every program has; std:: is above */
	"core::*", "alloc::*", "hashbrown::*", "<[[]*", "<str>::*",

	/* GLib's containers and strings */
	"g_array_*", "g_ptr_array_*", "g_byte_array_*", "g_string_*", "g_list_*", "g_slist_*", "g_queue_*",
};

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
	"*/liballocsnap-sampler*.so*", "/memfd:allocsnap-sampler*",
};

static const char *const jvm_allocators[] = {
	"Arena::*", "Chunk::*", "ChunkPool::*", "*ArrayAllocator::*", "resource_*allocate_bytes", "GrowableArray*",
};

static bool matches_wrapper_row(const char *const *row, size_t nr, const char *base)
{
	for (size_t i = 0; i < nr; i++)
		if ((row[i][0] == base[0] || row[i][0] == '*') && pattern_matches(row[i], base))
			return true;
	return false;
}

/* ---- the first two bytes of all names in the tables ---------------------------------------------------- */

/* All names of a snapshot are looked up, and few of them are in the tables: this tells most of the others apart. */
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
	for (size_t i = 0; i < ARRAY_SIZE(prefixed); i++)
		add_pair(prefixed[i]);
	for (size_t i = 1; i < ARRAY_SIZE(prefixes); i++)
		add_pair(prefixes[i]);
	add_pairs_of_patterns(allocators, ARRAY_SIZE(allocators));
	add_pairs_of_patterns(plumbing, ARRAY_SIZE(plumbing));
	add_pairs_of_patterns(starts, ARRAY_SIZE(starts));
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

enum frame_role wrapper_role_by_name(const char *base)
{
	if (!*base)
		return ROLE_OWN;
	if (is_new_of_class(base))
		return ROLE_ALLOCATOR;
	if (!may_be_listed(base))
		return ROLE_OWN;
	if (is_prefixed(base) || matches_wrapper_row(allocators, ARRAY_SIZE(allocators), base))
		return ROLE_ALLOCATOR;
	if (matches_wrapper_row(plumbing, ARRAY_SIZE(plumbing), base))
		return ROLE_PLUMBING;
	return matches_wrapper_row(starts, ARRAY_SIZE(starts), base) ? ROLE_START : ROLE_OWN;
}

enum frame_role wrapper_role_in_jvm(const char *base)
{
	return matches_wrapper_row(jvm_allocators, ARRAY_SIZE(jvm_allocators), base) ? ROLE_ALLOCATOR : ROLE_OWN;
}

enum frame_role wrapper_role_by_path(const char *path)
{
	if (matches_wrapper_row(sampler_path, ARRAY_SIZE(sampler_path), path))
		return ROLE_SAMPLER;
	if (matches_wrapper_row(allocator_path, ARRAY_SIZE(allocator_path), path))
		return ROLE_ALLOCATOR;
	return matches_wrapper_row(plumbing_path, ARRAY_SIZE(plumbing_path), path) ? ROLE_PLUMBING : ROLE_OWN;
}

bool wrapper_path_is_jvm(const char *path)
{
	return pattern_matches("*/libjvm.so*", path);
}
