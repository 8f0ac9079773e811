/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_NEXT_ALLOCATOR_H
#define ALLOCSNAP_SAMPLER_NEXT_ALLOCATOR_H

/*
 * The allocator behind a preloaded library: in the next file that has the functions, found by name. The first call finds it,
 * so that the fast paths need not ask for it. A file that includes this defines
 *
 *	static void find_next_allocator(void);	sets `next`, by allocator_find_next()
 *	static void early_is_used(uintptr_t address);	blocks in the page there are free()'s to pass over
 */

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void find_next_allocator(void);
static void early_is_used(uintptr_t address);

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
	early_is_used((uintptr_t)early.byte);
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

static void *first_malloc(size_t n);
static void *first_calloc(size_t n, size_t size);
static void *first_realloc(void *old, size_t n);
static void first_free(void *block);
static void *first_memalign(size_t alignment, size_t n);
static void *first_aligned_alloc(size_t alignment, size_t n);
static int first_posix_memalign(void **ret_block, size_t alignment, size_t n);
static void *first_valloc(size_t n);
static void *first_pvalloc(size_t n);

static struct allocator next = { first_malloc, first_calloc, first_realloc, first_free, first_memalign, first_aligned_alloc,
				 first_posix_memalign, first_valloc, first_pvalloc };
static bool has_begun;

/* Before dlsym(). The C library says that it does not call back (leaf), but it allocates: so the compiler may not put this off. */
static void use_early_allocator(void)
{
	has_begun = true;
	next = early_allocator;
	__asm__ volatile("" : : : "memory");
}

static void *first_malloc(size_t n)
{
	find_next_allocator();
	return next.malloc(n);
}

static void *first_calloc(size_t n, size_t size)
{
	find_next_allocator();
	return next.calloc(n, size);
}

static void *first_realloc(void *old, size_t n)
{
	find_next_allocator();
	return next.realloc(old, n);
}

static void first_free(void *block)
{
	find_next_allocator();
	next.free(block);
}

static void *first_memalign(size_t alignment, size_t n)
{
	find_next_allocator();
	return next.memalign(alignment, n);
}

static void *first_aligned_alloc(size_t alignment, size_t n)
{
	find_next_allocator();
	return next.aligned_alloc(alignment, n);
}

static int first_posix_memalign(void **ret_block, size_t alignment, size_t n)
{
	find_next_allocator();
	return next.posix_memalign(ret_block, alignment, n);
}

static void *first_valloc(size_t n)
{
	find_next_allocator();
	return next.valloc(n);
}

static void *first_pvalloc(size_t n)
{
	find_next_allocator();
	return next.pvalloc(n);
}

static void *realloc_early(const char *old, size_t n)
{
	char *block = malloc(n);

	for (size_t i = 0; block && i < n && is_early(old + i); i++)
		((volatile char *)block)[i] = old[i];
	return block;
}

#endif
