// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/wrappers.h"

#include <fnmatch.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"

enum match {
	EXACT,	  /* the whole name */
	PREFIXED, /* the whole name, or after one of prefixes[] */
	BEGINS,	  /* the name begins so */
};

static const char *const prefixes[] = {
	"__",  "__libc_", "__GI_", "__GI___", "__GI___libc_",
	"je_", "_rjem_",  "tc_",   "mi_",     "mi_heap_",
};

static const struct {
	const char *name;
	enum match match;
} wrappers[] = {
	{ "malloc", PREFIXED },
	{ "calloc", PREFIXED },
	{ "realloc", PREFIXED },
	{ "reallocarray", PREFIXED },
	{ "memalign", PREFIXED },
	{ "aligned_alloc", PREFIXED },
	{ "posix_memalign", PREFIXED },
	{ "valloc", PREFIXED },
	{ "pvalloc", PREFIXED },

	/* glibc, inside */
	{ "_int_malloc", EXACT },
	{ "_int_realloc", EXACT },
	{ "_int_memalign", EXACT },
	{ "_mid_memalign", EXACT },

	/* jemalloc */
	{ "mallocx", PREFIXED },
	{ "rallocx", PREFIXED },

	/* tcmalloc */
	{ "tc_new", EXACT },
	{ "tc_new_nothrow", EXACT },
	{ "tc_new_aligned", EXACT },
	{ "tc_new_aligned_nothrow", EXACT },
	{ "tc_newarray", EXACT },
	{ "tc_newarray_nothrow", EXACT },
	{ "tc_newarray_aligned", EXACT },
	{ "tc_newarray_aligned_nothrow", EXACT },
	{ "tc_malloc_skip_new_handler", EXACT },

	/* mimalloc */
	{ "mi_zalloc", EXACT },
	{ "mi_mallocn", EXACT },
	{ "mi_malloc_small", EXACT },
	{ "mi_zalloc_small", EXACT },
	{ "mi_malloc_aligned", EXACT },
	{ "mi_zalloc_aligned", EXACT },
	{ "mi_calloc_aligned", EXACT },
	{ "mi_realloc_aligned", EXACT },
	{ "mi_heap_zalloc", EXACT },
	{ "mi_heap_malloc_aligned", EXACT },
	{ "mi_heap_zalloc_aligned", EXACT },
	{ "mi_new", EXACT },
	{ "mi_new_n", EXACT },
	{ "mi_new_nothrow", EXACT },
	{ "mi_new_aligned", EXACT },
	{ "mi_new_aligned_nothrow", EXACT },
	{ "_mi_malloc_generic", EXACT },
	{ "_mi_heap_malloc_zero", EXACT },

	/* C++ */
	{ "operator new", EXACT },
	{ "operator new(", BEGINS },
	{ "operator new[]", EXACT },
	{ "operator new[](", BEGINS },
	{ "_Znw", BEGINS },
	{ "_Zna", BEGINS },
};

static bool same(const char *name, const char *text, size_t len)
{
	return strlen(name) == len && !memcmp(name, text, len);
}

static bool matches_prefixed(const char *name, const char *function, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		size_t skip = strlen(prefixes[i]);

		if (!strncmp(function, prefixes[i], skip) &&
		    same(name, function + skip, len - skip))
			return true;
	}
	return same(name, function, len);
}

static bool is_allocator(const char *function)
{
	/* without the symbol's version and the compiler's ".part.0" */
	size_t len = strcspn(function, "@.");

	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++) {
		const char *name = wrappers[i].name;

		switch (wrappers[i].match) {
		case EXACT:
			if (same(name, function, len))
				return true;
			break;
		case PREFIXED:
			if (matches_prefixed(name, function, len))
				return true;
			break;
		case BEGINS:
			if (!strncmp(function, name, strlen(name)))
				return true;
			break;
		}
	}
	return false;
}

bool function_is_wrapper(const char *function, const struct engine_options *options)
{
	if (!function || options->keep_wrappers)
		return false;
	for (size_t i = 0; i < options->skip_nr; i++)
		if (!fnmatch(options->skip[i], function, 0))
			return true;
	return is_allocator(function);
}
