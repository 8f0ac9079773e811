/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PYTHON_PYMALLOC_BPF_H
#define ALLOCSNAP_PYTHON_PYMALLOC_BPF_H

/*
 * Tells beforehand what CPython's allocator of small blocks will give (Objects/obmalloc.c): the head of a free list.
 * The thread holds the GIL until it has the block, so nothing can change. This saves the trap at the return.
 *
 *	usedpools[class] → pool: freeblock is the block
 *	no pool of that class: usable_arenas → freepools → the first block of that pool
 *	no free pool: usable_arenas → pool_address, which becomes one
 *	no arena: one will be made, by mmap: the address is known when the thread comes by again
 */

#include "python/frames.bpf.h"

#define POOL_HEADER 48
#define SMALL_MAX 512
#define CLASS_BYTES 16
#define CLASS_OF(size) (((size) - 1) / CLASS_BYTES)

/* Offsets in struct pool_header, the same in CPython 3.7 to 3.14. */
#define POOL_FREEBLOCK 8 /* followed by nextpool */
#define POOL_NEXT 16
#define POOL_ARENA 32
#define POOL_CLASS 36

/* Offsets in struct arena_object. */
#define ARENA_POOL_ADDRESS 8
#define ARENA_FREEPOOLS 24
#define ARENA_OBJECT_BYTES 48

/* It stays where it is (CPython 3.12 on). 0: there is none yet. */
static __always_inline __u64 main_interpreter(struct python_process *python)
{
	if (!python->main_at)
		python->main_at = read_word(python->main_interpreter); /* each program finds the same */
	return python->main_at;
}

/* Where the allocator's variables begin. 0: nowhere. */
static __always_inline __u64 pools_base(struct python_process *python)
{
	__u64 at;

	if (!python->in_interpreter || python->pools_at)
		return python->pools_at;
	at = main_interpreter(python);
	if (!at)
		return 0;
	at += python->state;
	if (python->in_interpreter > 1)
		at = read_word(at);
	python->pools_at = at; /* each program finds the same */
	return at;
}

/* The first pool of a class with a free block, or 0. *ret_block: that block. */
static __always_inline __u64 pool_used(struct python_process *python, __u64 class, __u64 *ret_block)
{
	__u64 pool = read_word(pools_base(python) + python->used_pools + 2 * sizeof(pool) * class), header[2];

	if (!pool || bpf_probe_read_user(header, sizeof(header), (void *)(pool + POOL_FREEBLOCK)) || header[1] == pool)
		return 0;
	*ret_block = header[0];
	return pool;
}

/* The address that the next block of this size gets; 0: in a new arena. */
static __always_inline __u64 pymalloc_next(struct python_process *python, __u64 size)
{
	__u64 class = CLASS_OF(size), block = 0, arena, pool;

	if (pool_used(python, class, &block))
		return block;
	arena = read_word(pools_base(python) + python->usable_arenas);
	if (!arena)
		return 0;
	pool = read_word(arena + ARENA_FREEPOOLS);
	if (pool)
		return read_half(pool + POOL_CLASS) == class ? read_word(pool + POOL_FREEBLOCK) : pool + POOL_HEADER;
	pool = read_word(arena + ARENA_POOL_ADDRESS);
	return pool ? pool + POOL_HEADER : 0;
}

/* The pool that an address lies in; 0: it is none of pymalloc's blocks. */
static __always_inline __u64 pool_of(struct python_process *python, __u64 address)
{
	__u64 base = pools_base(python), pool = address & -python->pool_bytes, arena;
	__u32 nr = read_half(pool + POOL_ARENA);

	if (nr >= read_half(base + python->max_arenas))
		return 0;
	arena = read_word(read_word(base + python->arenas) + nr * (__u64)ARENA_OBJECT_BYTES);
	return arena && address - arena < python->arena_bytes ? pool : 0;
}

/* The room of the blocks of a pool. */
static __always_inline __u64 pool_block_bytes(__u64 pool)
{
	return (read_half(pool + POOL_CLASS) + 1ULL) * CLASS_BYTES;
}

#endif
