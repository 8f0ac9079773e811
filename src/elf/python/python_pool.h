/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_POOL_H
#define ALLOCSNAP_ELF_PYTHON_POOL_H

/*
 * A pool of CPython's allocator of small objects (Objects/obmalloc.c), copied from a process: any bytes.
 *
 *	pool: { live blocks, first free block, …, size class, offset of the next block that was never used } blocks …
 *
 * The blocks that were ever used and are not in the free list are live. The same in CPython 3.7 to 3.14.
 */

#include <stdbool.h>
#include <stdint.h>

#define PYTHON_POOL_MOST 16384 /* bytes */
#define PYTHON_POOL_HEADER 48
#define PYTHON_BLOCK_STEP 16 /* blocks of class n have (n + 1) times as many bytes */
#define PYTHON_POOL_CLASSES 32

struct python_pool {
	uint32_t block_bytes; /* 0: the pool is free */
	uint32_t live_nr;
	uint32_t used_end; /* offset behind the blocks that were ever used */
	bool is_free[PYTHON_POOL_MOST / PYTHON_BLOCK_STEP]; /* a block by its number, from the header on */
};

/* The bytes of a pool that have blocks, or had, by a copy of its first page. What is behind them was never touched. */
uint32_t python_pool_used(const uint64_t *word, uint32_t pool_bytes);

/* Reads a copy of what is used. False: it makes no sense, perhaps because it has changed while it was copied. */
bool python_pool_read(const uint64_t *word, uint64_t address, uint32_t pool_bytes, struct python_pool *ret);

#endif
