// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * An allocator that calls nothing. Who is compiled together with it may rely on each register that it leaves alone
 * (-fipa-ra): registers.c. Its operator new has a variant that changes more of them.
 */
#include "pool.h"

#include <errno.h>
#include <stdint.h>

#define BLOCKS 4096
#define LEAF __attribute__((noinline, noclone))

static struct block {
	struct block *next;
	uint64_t content[31];
} pool[BLOCKS] __attribute__((aligned(64)));
static struct block *head;

LEAF void *malloc(size_t bytes)
{
	struct block *block = head;

	if (!block || bytes > sizeof(*block))
		return NULL;
	head = block->next;
	return block;
}

LEAF void free(void *address)
{
	struct block *block = address;

	if (!block)
		return;
	block->next = head;
	head = block;
}

LEAF void *calloc(size_t nr, size_t bytes)
{
	struct block *block = head;

	if (!block || nr * bytes > sizeof(*block))
		return NULL;
	head = block->next;
	for (int i = 0; i < 31; i++)
		block->content[i] = 0;
	block->next = NULL;
	return block;
}

/* It always moves the block. */
LEAF void *realloc(void *old, size_t bytes)
{
	struct block *block = head, *from = old;

	if (!block || bytes > sizeof(*block))
		return NULL;
	head = block->next;
	if (!from)
		return block;
	for (int i = 0; i < 31; i++)
		block->content[i] = from->content[i];
	from->next = head;
	head = from;
	return block;
}

LEAF int posix_memalign(void **ret, size_t alignment, size_t bytes)
{
	struct block *block = head;

	if (alignment > 64)
		return EINVAL;
	if (!block || bytes > sizeof(*block))
		return ENOMEM;
	head = block->next;
	*ret = block;
	return 0;
}

LEAF void *operator_new(size_t bytes)
{
	struct block *block = head;

	if (!block || bytes > sizeof(*block))
		return NULL;
	head = block->next;
	return block;
}

LEAF void *operator_new_nothrow(size_t bytes, const void *nothrow)
{
	__asm__ volatile("pcmpeqd %%xmm3, %%xmm3\n\tpcmpeqd %%xmm15, %%xmm15" : : "r"(nothrow) : "xmm3", "xmm15");
	return operator_new(bytes);
}

void pool_fill(void)
{
	for (int i = 0; i < BLOCKS; i++)
		free(&pool[i]);
}
