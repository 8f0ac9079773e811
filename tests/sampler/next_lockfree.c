// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An allocator for tests, preloaded behind the library: it takes no locks and makes no system calls, so that signal
 * handlers and sandboxed processes may call it. It never gives an address out again. With -DNESTED its functions call
 * each other by name, as musl's do.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define ARENA ((size_t)1 << 30)

/* Before each block lies its size. */
static char arena[ARENA] __attribute__((aligned(4096)));
static size_t used;

static void *carve(size_t alignment, size_t n)
{
	size_t begin, end, old = __atomic_load_n(&used, __ATOMIC_RELAXED);

	if (n > ARENA)
		goto full;
	do {
		begin = (old + sizeof(size_t) + alignment - 1) & ~(alignment - 1);
		end = begin + n;
		if (end > ARENA)
			goto full;
	} while (!__atomic_compare_exchange_n(&used, &old, end, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	((size_t *)(arena + begin))[-1] = n;
	return arena + begin;
full:
	errno = ENOMEM;
	return NULL;
}

EXPORT void *malloc(size_t n)
{
	return carve(16, n);
}

EXPORT void free(void *)
{
}

EXPORT size_t malloc_usable_size(void *block)
{
	return block ? ((size_t *)block)[-1] : 0;
}

#ifdef NESTED
#define MALLOC malloc
#define MEMALIGN memalign
#define FREE free
#else
#define MALLOC(n) carve(16, n)
#define MEMALIGN carve
#define FREE(block) (void)(block)
#endif

EXPORT void *memalign(size_t alignment, size_t n)
{
#ifdef NESTED
	uintptr_t block = (uintptr_t)malloc(n + alignment + sizeof(size_t));
	uintptr_t aligned = (block + sizeof(size_t) + alignment - 1) & ~(alignment - 1);

	if (!block || n > ARENA)
		return NULL;
	((size_t *)aligned)[-1] = n;
	return (void *)aligned;
#else
	return carve(alignment, n);
#endif
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return MALLOC(bytes); /* the arena is zero */
}

EXPORT void *realloc(void *old, size_t n)
{
	char *block = MALLOC(n);

	for (size_t i = 0; block && old && i < n && i < malloc_usable_size(old); i++)
		block[i] = ((char *)old)[i];
	if (block)
		FREE(old);
	return block;
}

EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
	return MEMALIGN(alignment, n);
}

EXPORT int posix_memalign(void **ret_block, size_t alignment, size_t n)
{
	void *block;

	if (alignment % sizeof(void *) || alignment & (alignment - 1))
		return EINVAL;
	block = MEMALIGN(alignment, n);
	if (!block)
		return ENOMEM;
	*ret_block = block;
	return 0;
}

EXPORT void *valloc(size_t n)
{
	return MEMALIGN(4096, n);
}

EXPORT void *pvalloc(size_t n)
{
	return MEMALIGN(4096, n);
}
