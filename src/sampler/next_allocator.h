/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_NEXT_ALLOCATOR_H
#define ALLOCSNAP_SAMPLER_NEXT_ALLOCATOR_H

/* The allocator behind the library: that of the next file that has the functions, found by name. */

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "sampler/sampled_set.h"

struct allocator {
	void *(*malloc)(size_t n);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *old, size_t n);
	void (*free)(void *block);
	void *(*memalign)(size_t alignment, size_t n);
	void *(*aligned_alloc)(size_t alignment, size_t n);
	int (*posix_memalign)(void **ret_block, size_t alignment, size_t n);
	void *(*valloc)(size_t n);
	void *(*pvalloc)(size_t n);
};

/* ---- what dlsym() allocates while it looks for the allocator; never given back ---- */

static struct {
	char byte[4096];
	size_t used;
} early __attribute__((aligned(4096)));

static bool is_early(const void *block)
{
	return (uintptr_t)block - (uintptr_t)early.byte < sizeof(early.byte);
}

static void *early_malloc(size_t n)
{
	size_t begin = early.used;

	if (n > sizeof(early.byte) - begin)
		return NULL;
	early.used = (begin + n + 15) & ~(size_t)15;
	*filter_place((uintptr_t)early.byte) = FILTER_ALWAYS; /* so that free() looks at it */
	return early.byte + begin;
}

static void *early_calloc(size_t n, size_t size)
{
	return size && n > sizeof(early.byte) / size ? NULL : early_malloc(n * size);
}

static void *early_realloc(void *old, size_t n)
{
	return old ? NULL : early_malloc(n);
}

static void early_free(void *block)
{
	(void)block;
}

static const struct allocator early_allocator = { early_malloc, early_calloc, early_realloc, early_free };

/* ---- finding it ---- */

static void *no_pages(size_t n)
{
	(void)n;
	errno = ENOMEM;
	return NULL;
}

/* musl has no pvalloc(). The others are in every C library. */
static struct allocator allocator_find_next(void)
{
	struct allocator found = { .pvalloc = dlsym(RTLD_NEXT, "pvalloc") ?: no_pages };

#define FIND(name) found.name = dlsym(RTLD_NEXT, #name)
	FIND(valloc);
	FIND(memalign);
	FIND(aligned_alloc);
	FIND(posix_memalign);
	FIND(calloc);
	FIND(realloc);
	FIND(free);
	FIND(malloc);
#undef FIND
	return found;
}

static bool allocator_has(const struct allocator *allocator, const void *function)
{
	Dl_info info, other;

	return function && dladdr(function, &info) && dladdr((void *)allocator->malloc, &other) &&
	       info.dli_fbase == other.dli_fbase;
}

#endif
