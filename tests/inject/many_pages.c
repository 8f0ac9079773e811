// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An allocator of so many names, each on a page of its own, that not all of them can be replaced. */
#include <stddef.h>
#include <string.h>

#define ON_OWN_PAGE __attribute__((aligned(4096), visibility("default")))

static char arena[64 << 20] __attribute__((aligned(64)));
static size_t used;

static void *carve(size_t bytes)
{
	size_t end = __atomic_add_fetch(&used, (bytes + 63) & ~63ul, __ATOMIC_RELAXED);

	return end > sizeof(arena) ? NULL : arena + end - ((bytes + 63) & ~63ul);
}

#define FAMILY(prefix)                                                        \
	ON_OWN_PAGE void *prefix##malloc(size_t n)                            \
	{                                                                     \
		return carve(n);                                              \
	}                                                                     \
	ON_OWN_PAGE void *prefix##valloc(size_t n)                            \
	{                                                                     \
		return carve(n);                                              \
	}                                                                     \
	ON_OWN_PAGE void *prefix##pvalloc(size_t n)                           \
	{                                                                     \
		return carve(n);                                              \
	}                                                                     \
	ON_OWN_PAGE void *prefix##calloc(size_t n, size_t m)                  \
	{                                                                     \
		return carve(n * m);                                          \
	}                                                                     \
	ON_OWN_PAGE void *prefix##aligned_alloc(size_t alignment, size_t n)   \
	{                                                                     \
		return carve(n + alignment);                                  \
	}                                                                     \
	ON_OWN_PAGE void *prefix##memalign(size_t alignment, size_t n)        \
	{                                                                     \
		return carve(n + alignment);                                  \
	}                                                                     \
	ON_OWN_PAGE void *prefix##realloc(void *old, size_t n)                \
	{                                                                     \
		void *block = carve(n);                                       \
                                                                              \
		return old && block ? memmove(block, old, n) : block;         \
	}                                                                     \
	ON_OWN_PAGE void prefix##free(void *block)                            \
	{                                                                     \
		(void)block;                                                  \
	}                                                                     \
	ON_OWN_PAGE void prefix##cfree(void *block)                           \
	{                                                                     \
		(void)block;                                                  \
	}

FAMILY()
FAMILY(je_)
FAMILY(_rjem_)
FAMILY(mi_)
