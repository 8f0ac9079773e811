/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_LAYERS_H
#define ALLOCSNAP_ELF_PYTHON_LAYERS_H

/*
 * The tables of allocators in a process. tracemalloc and CPython's debug hooks put functions of their own in front of what
 * was there, and their context leads to it:
 *
 *	table: { ctx, tracemalloc's functions } ──ctx──► { ctx, pymalloc's functions }
 *	table: { ctx, debug functions } ──ctx──► { char, { ctx, pymalloc's functions } }
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/python/python_info.h"

#define PYTHON_LAYERS_MAX 8

enum python_layer_kind {
	PYTHON_LAYER_PLAIN = 0,	   /* it leads nowhere: an allocator */
	PYTHON_LAYER_TRACEMALLOC,  /* the same blocks as the next one */
	PYTHON_LAYER_DEBUG,	   /* blocks of the next one are larger: each has bytes before and behind it */
	PYTHON_LAYER_FOREIGN,	   /* functions of another file: set by PyMem_SetAllocator(), or a module */
};

struct python_layer {
	enum python_layer_kind kind;
	uint32_t pad;
	uint64_t context;
	uint64_t function[PYTHON_OPERATION_NR]; /* addresses in the process */
};

struct python_layers {
	uint32_t nr; /* the outermost one first */
	uint32_t recorded; /* the one whose functions are to be probed: the first that tracemalloc has not put there */
	struct python_layer layer[PYTHON_LAYERS_MAX];
};

/* The memory of a process. read() returns 0 or -errno. */
struct python_memory {
	void *process;
	int (*read)(void *process, uint64_t address, void *to, size_t bytes);
};

/*
 * The layers of a domain in a process that has the file of *info loaded at its addresses + bias. 0; an error of read();
 * -ENOTSUP with a line in *why: functions of another file are in force, so that recording would need to know them, or
 * the layers make no sense. ret->layer[] has the layers until there, for texts.
 */
int python_layers_read(const struct python_info *info, uint64_t bias, enum python_domain domain,
		       const struct python_memory *memory, struct python_layers *ret, struct reason *why);

/* Whether the recorded layer is the debug hooks in front of the file's own allocator. */
bool python_layers_debug_own(const struct python_layers *layers, const struct python_info *info, uint64_t bias,
			     enum python_domain domain);

/* The functions to be probed, as addresses of the file. */
void python_layers_asked(const struct python_layers *layers, uint64_t bias, uint64_t ret[PYTHON_OPERATION_NR]);

/* Whether a thread's state is where the kernel side looks for it: among the values that glibc keeps for the thread. */

/*
 * Looks for one thread of the main interpreter whose state is found so. NULL: there is one (*ret_found), or Python has no
 * thread yet; otherwise what is in the way.
 */
const char *python_states_check(const struct python_info *info, uint64_t bias, const struct python_memory *memory,
				bool *ret_found);

/*
 * A pool of CPython's allocator of small objects (Objects/obmalloc.c), copied from a process: any bytes.
 *
 *	pool: { live blocks, first free block, …, size class, offset of the next block that was never used } blocks …
 *
 * The blocks that were ever used and are not in the free list are live. The same in CPython 3.7 to 3.14.
 */

#define PYTHON_POOL_MOST 16384 /* bytes */
#define PYTHON_POOL_HEADER 48
#define PYTHON_BLOCK_STEP 16 /* blocks of class n have (n + 1) times as many bytes */

struct python_pool {
	uint32_t block_bytes; /* 0: the pool is free */
	uint32_t live_nr;
	uint32_t used_end; /* offset behind the blocks that were ever used */
	bool is_free[PYTHON_POOL_MOST / PYTHON_BLOCK_STEP]; /* a block by its number, from the header on */
};

/* As in CPython: struct arena_object. */
struct python_arena {
	uint64_t address, pool_address;
	uint32_t free_pool_nr, pool_nr;
	uint64_t free_pools, next, previous;
};

/* The bytes of a pool that have blocks, or had, by a copy of its first page. What is behind them was never touched. */
uint32_t python_pool_used(const uint64_t *word, uint32_t pool_bytes);

/* Reads a copy of what is used. False: it makes no sense, perhaps because it has changed while it was copied. */
bool python_pool_read(const uint64_t *word, uint64_t address, uint32_t pool_bytes, struct python_pool *ret);

#endif
