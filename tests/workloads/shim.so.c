// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Preloaded: an allocator above the next one, which it counts the calls of. Its blocks have a header of 16 bytes. Other
 * builds:
 *
 *	-DCARVE		blocks of up to 256 bytes are parts of larger ones
 *	-DPLAIN		its blocks are the C library's own; its functions jump there and do not return
 *	-DPARTIAL	it defines only malloc, free and operator new; its blocks are the next one's own
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

unsigned long shim_calls;

#ifdef PLAIN

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t bytes)
{
	shim_calls++;
	return __libc_malloc(bytes);
}

void free(void *block)
{
	shim_calls++;
	__libc_free(block);
}

void *calloc(size_t nr, size_t bytes)
{
	shim_calls++;
	return __libc_calloc(nr, bytes);
}

void *realloc(void *block, size_t bytes)
{
	shim_calls++;
	return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes)
{
	shim_calls++;
	return __libc_memalign(alignment, bytes);
}

#else

static struct {
	void *(*malloc)(size_t), *(*memalign)(size_t, size_t);
	void (*free)(void *);
} next;

/* Before another constructor allocates, or at the first call. */
static __attribute__((constructor(101))) void find_next(void)
{
	*(void **)&next.free = dlsym(RTLD_NEXT, "free");
	*(void **)&next.memalign = dlsym(RTLD_NEXT, "memalign");
	*(void **)&next.malloc = dlsym(RTLD_NEXT, "malloc");
}

static inline __attribute__((always_inline)) void count_call(void)
{
	shim_calls++;
	if (!next.malloc)
		find_next();
}

#ifdef PARTIAL

void *malloc(size_t bytes)
{
	void *block;

	count_call();
	block = next.malloc(bytes);
	__asm__ volatile("" : "+r"(block)); /* it is called, and not jumped to */
	return block;
}

void free(void *block)
{
	count_call();
	next.free(block);
	__asm__ volatile("");
}

void *operator_new(size_t bytes) __asm__("_Znwm");
void *operator_new_nothrow(size_t bytes, const void *nothrow) __asm__("_ZnwmRKSt9nothrow_t");
void operator_delete(void *block) __asm__("_ZdlPv");

/* It ends the program where it should throw. */
void *operator_new(size_t bytes)
{
	void *block;

	count_call();
	block = next.malloc(bytes);
	return block ?: (abort(), NULL);
}

void *operator_new_nothrow(size_t bytes, const void *)
{
	return malloc(bytes);
}

void operator_delete(void *block)
{
	free(block);
}
#else /* header, or CARVE */

#ifdef CARVE
#define CARVED_MAX 256
#else
#define CARVED_MAX -1
#endif
#define CHUNK_BYTES (64 << 10)

/* Before each block. */
struct header {
	void *start; /* the next allocator's block; NULL: it is part of a chunk */
	size_t bytes;
};

static void *carve(size_t bytes)
{
	static __thread char *chunk;
	static __thread size_t left;
	size_t taken = sizeof(struct header) + ((bytes + 15) & ~(size_t)15);
	struct header *header;

	if (left < taken) {
		chunk = next.malloc(CHUNK_BYTES);
		left = chunk ? CHUNK_BYTES : 0;
	}
	if (!chunk)
		return NULL;
	header = (struct header *)chunk;
	*header = (struct header){ NULL, bytes };
	chunk += taken;
	left -= taken;
	return header + 1;
}

static void *with_header(void *start, size_t offset, size_t bytes)
{
	struct header *block = start ? (struct header *)((char *)start + offset) : NULL;

	if (block)
		block[-1] = (struct header){ start, bytes };
	return block;
}

static void *allocate(size_t bytes)
{
	if ((ptrdiff_t)bytes <= CARVED_MAX)
		return carve(bytes);
	return with_header(next.malloc(bytes + sizeof(struct header)), sizeof(struct header), bytes);
}

static void *fail(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t bytes)
{
	count_call();
	return bytes > PTRDIFF_MAX - sizeof(struct header) ? fail() : allocate(bytes);
}

void free(void *block)
{
	struct header *header = block;

	count_call();
	if (header && header[-1].start)
		next.free(header[-1].start);
}

void *calloc(size_t nr, size_t each)
{
	size_t bytes;
	void *block;

	count_call();
	if (__builtin_mul_overflow(nr, each, &bytes) || bytes > PTRDIFF_MAX - sizeof(struct header))
		return fail();
	block = allocate(bytes);
	return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *old, size_t bytes)
{
	struct header *header = old;
	void *block;

	count_call();
	if (bytes > PTRDIFF_MAX - sizeof(struct header))
		return fail();
	block = allocate(bytes);
	if (!block || !old)
		return block;
	memcpy(block, old, header[-1].bytes < bytes ? header[-1].bytes : bytes);
	if (header[-1].start)
		next.free(header[-1].start);
	return block;
}

/* Its functions do not call each other by name: another one may come before. */
static void *allocate_aligned(size_t alignment, size_t bytes)
{
	alignment = alignment < sizeof(struct header) ? sizeof(struct header) : alignment;
	if (bytes > PTRDIFF_MAX - alignment)
		return fail();
	return with_header(next.memalign(alignment, bytes + alignment), alignment, bytes);
}

int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
	void *block;

	count_call();
	if (alignment % sizeof(void *) || alignment & (alignment - 1))
		return EINVAL;
	block = allocate_aligned(alignment, bytes);
	if (!block)
		return ENOMEM;
	*ret = block;
	return 0;
}

void *memalign(size_t alignment, size_t bytes)
{
	count_call();
	return allocate_aligned(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	count_call();
	return allocate_aligned(alignment, bytes);
}

void *valloc(size_t bytes)
{
	count_call();
	return allocate_aligned(4096, bytes);
}

void *pvalloc(size_t bytes)
{
	count_call();
	return allocate_aligned(4096, (bytes + 4095) & ~(size_t)4095);
}

size_t malloc_usable_size(void *block)
{
	return block ? ((struct header *)block)[-1].bytes : 0;
}
#endif
#endif
