/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PYTHON_LIVE_POOLS_H
#define ALLOCSNAP_COLLECT_PYTHON_LIVE_POOLS_H

/*
 * The small objects that are live in a CPython, by address: what its allocator's own lists say. The process runs on, and
 * its memory may hold anything: the caller knows whether it has changed meanwhile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/python/python_layers.h"
#include "shared/python_calls.h"

struct live_pool {
	uint64_t address;
	uint32_t block_bytes; /* 0: free */
	uint32_t live_nr;
	uint64_t live[PYTHON_POOL_MOST / PYTHON_BLOCK_STEP / 64]; /* a bit for each 16 bytes, at the begin of a block */
};

/* Zeroed: none. */
struct live_pools {
	struct live_pool *pool; /* by address; those that were never used are not there */
	size_t pool_nr, pool_alloc;
	uint32_t pool_bytes;
};

/* Reads memory of the process. 0 or a negative errno. */
typedef int (*live_read_fn)(void *process, uint64_t address, void *to, size_t bytes);

/* 0; -ENOMEM; -EAGAIN: a pool made no sense; -E2BIG; or an error of read(). After an error ret is empty. */
int live_pools_read(const struct python_process *where, live_read_fn read, void *process, struct live_pools *ret);
void live_pools_release(struct live_pools *pools);

/* The bytes of all arenas that the pools lie in. Reads their table only. 0, -E2BIG, or an error of read(). */
int live_pools_arenas(const struct python_process *where, live_read_fn read, void *process, uint64_t *ret_bytes);

enum live_state {
	LIVE_ELSEWHERE, /* not in an arena's pool */
	LIVE_NOT,
	LIVE_SMALLER, /* a live block begins there, but it is too small */
	LIVE_THERE,
};

/* Takes the block out, whatever it is. */
enum live_state live_pools_take(struct live_pools *pools, uint64_t address, uint64_t bytes);

/* Makes one block of each pool that has live ones: it begins where the pool does, and is as large. */
void live_pools_unite(struct live_pools *pools);

/* The blocks that are left, and what they take. */
uint64_t live_pools_sum(const struct live_pools *pools, uint64_t *ret_bytes);

/* ---- compared with the account, again and again ---- */

/* Zeroed: not yet. */
struct python_checked {
	struct live_pools older; /* live, and not in the account since the first time */
	bool has_older;
	bool is_now; /* the last pass had a result */
	uint64_t image; /* of the account */
	uint64_t calls; /* that were seen until a check begins */
	uint64_t unseen; /* live blocks that the account should have */
	uint64_t gone;	 /* blocks of the account that are not live, or too large for their place */
	uint64_t older_nr, older_bytes;
};

/* *live: without the blocks of the account. What is there for the first time is older than the account. Takes over *live. */
void python_checked_note(struct python_checked *checked, struct live_pools *live);

#endif
