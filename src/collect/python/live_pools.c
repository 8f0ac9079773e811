// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/python/live_pools.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"

#define ARENAS_MOST (1u << 20)
#define POOLS_MOST (1u << 19) /* 8 GiB */
#define PAGE_BYTES 4096
#define READ_TRIES 3

struct live_reader {
	const struct python_process *where;
	live_read_fn read;
	void *process;
	struct live_pools *pools;
	uint64_t arena_nr;
	uint64_t word[PYTHON_POOL_MOST / 8];
	struct python_pool pool;
};

static int read_live_number(const struct live_reader *reader, uint64_t address, void *to, size_t bytes)
{
	return address ? reader->read(reader->process, address, to, bytes) : -EFAULT;
}

static int add_live_pool(struct live_reader *reader, uint64_t address)
{
	const struct python_pool *pool = &reader->pool;
	struct live_pool live = { .address = address, .block_bytes = pool->block_bytes, .live_nr = pool->live_nr };
	uint64_t at = PYTHON_POOL_HEADER;

	for (uint32_t i = 0; at < pool->used_end; i++, at += pool->block_bytes)
		if (!pool->is_free[i])
			live.live[at / PYTHON_BLOCK_STEP / 64] |= UINT64_C(1) << (at / PYTHON_BLOCK_STEP % 64);
	return reader->pools->pool_nr < POOLS_MOST ? array_push(reader->pools, pool, live) : -E2BIG;
}

/* There are kernels that would give memory to pages that were never touched (docs/census.md). */
static int copy_used(struct live_reader *reader, uint64_t address)
{
	uint32_t bytes = reader->where->pool_bytes, first = bytes < PAGE_BYTES ? bytes : PAGE_BYTES, used;
	int err = reader->read(reader->process, address, reader->word, first);

	if (err)
		return err;
	used = python_pool_used(reader->word, bytes);
	if (used <= first)
		return 0;
	return reader->read(reader->process, address + first, reader->word + first / 8, used - first);
}

static int read_live_pool(struct live_reader *reader, uint64_t address)
{
	uint32_t bytes = reader->where->pool_bytes;

	for (int try = 0; try < READ_TRIES; try++) {
		int err = copy_used(reader, address);

		if (err)
			return err;
		if (python_pool_read(reader->word, address, bytes, &reader->pool))
			return add_live_pool(reader, address);
	}
	return -EAGAIN;
}

static int read_live_arena(struct live_reader *reader, const struct python_arena *arena)
{
	uint64_t bytes = reader->where->pool_bytes, pool = (arena->address + bytes - 1) & -bytes;
	uint64_t end = arena->address + reader->where->arena_bytes;
	int err = 0;

	if (arena->pool_address < end)
		end = arena->pool_address;
	for (; !err && end > arena->address && pool + bytes <= end; pool += bytes)
		err = read_live_pool(reader, pool);
	return err;
}

typedef int (*live_arena_fn)(struct live_reader *reader, const struct python_arena *arena);

static int read_live_arenas(struct live_reader *reader, live_arena_fn fn)
{
	const struct python_process *where = reader->where;
	uint64_t state = where->pools_at, arenas = 0;
	uint32_t nr = 0;
	int err = 0;

	if (where->in_interpreter) {
		err = read_live_number(reader, where->main_interpreter, &state, sizeof(state));
		state += where->state;
		if (!err && where->in_interpreter > 1)
			err = read_live_number(reader, state, &state, sizeof(state));
	}
	err = err ?: read_live_number(reader, state + where->arenas, &arenas, sizeof(arenas));
	err = err ?: read_live_number(reader, state + where->max_arenas, &nr, sizeof(nr));
	if (!err && nr > ARENAS_MOST)
		err = -E2BIG;
	for (uint32_t i = 0; i < nr && !err; i++) {
		struct python_arena arena;

		err = read_live_number(reader, arenas + i * sizeof(arena), &arena, sizeof(arena));
		if (!err && arena.address)
			err = fn(reader, &arena);
	}
	return err;
}

static int count_live_arena(struct live_reader *reader, const struct python_arena *arena)
{
	(void)arena;
	reader->arena_nr++;
	return 0;
}

int live_pools_arenas(const struct python_process *where, live_read_fn read, void *process, uint64_t *ret_bytes)
{
	struct live_reader reader = { .where = where, .read = read, .process = process };
	int err = read_live_arenas(&reader, count_live_arena);

	*ret_bytes = reader.arena_nr * where->arena_bytes;
	return err;
}

static int compare_live_pools(const void *a, const void *b)
{
	const struct live_pool *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

int live_pools_read(const struct python_process *where, live_read_fn read, void *process, struct live_pools *ret)
{
	struct live_reader *reader = malloc(sizeof(*reader));
	int err = -ENOMEM;

	*ret = (struct live_pools){ .pool_bytes = where->pool_bytes };
	if (reader) {
		*reader = (struct live_reader){ .where = where, .read = read, .process = process, .pools = ret };
		err = where->pool_bytes && where->pool_bytes <= PYTHON_POOL_MOST ? read_live_arenas(reader, read_live_arena) : -EINVAL;
	}
	free(reader);
	if (err)
		live_pools_release(ret);
	else if (ret->pool_nr)
		qsort(ret->pool, ret->pool_nr, sizeof(*ret->pool), compare_live_pools);
	return err;
}

void live_pools_release(struct live_pools *pools)
{
	free(pools->pool);
	*pools = (struct live_pools){};
}

static struct live_pool *find_live_pool(const struct live_pools *pools, uint64_t address)
{
	const struct live_pool key = { .address = address };

	return pools->pool_nr ? bsearch(&key, pools->pool, pools->pool_nr, sizeof(key), compare_live_pools) : NULL;
}

enum live_state live_pools_take(struct live_pools *pools, uint64_t address, uint64_t bytes)
{
	struct live_pool *pool = pools->pool_nr ? find_live_pool(pools, address & -(uint64_t)pools->pool_bytes) : NULL;
	uint64_t at, bit;

	if (!pool)
		return LIVE_ELSEWHERE;
	at = (address - pool->address) / PYTHON_BLOCK_STEP;
	bit = UINT64_C(1) << at % 64;
	if (address % PYTHON_BLOCK_STEP || !(pool->live[at / 64] & bit))
		return LIVE_NOT;
	pool->live[at / 64] &= ~bit;
	pool->live_nr--;
	return bytes <= pool->block_bytes ? LIVE_THERE : LIVE_SMALLER;
}

void live_pools_unite(struct live_pools *pools)
{
	for (size_t i = 0; i < pools->pool_nr; i++) {
		struct live_pool *pool = &pools->pool[i];

		*pool = (struct live_pool){ .address = pool->address, .live_nr = pool->live_nr != 0 };
		pool->live[0] = pool->live_nr;
		pool->block_bytes = pool->live_nr ? pools->pool_bytes : 0;
	}
}

/* Leaves what is in both, of the same size. */
static void live_pools_intersect(struct live_pools *pools, const struct live_pools *with)
{
	for (size_t i = 0; i < pools->pool_nr; i++) {
		struct live_pool *pool = &pools->pool[i], *other = find_live_pool(with, pool->address);

		pool->live_nr = 0;
		for (size_t k = 0; k < sizeof(pool->live) / sizeof(*pool->live); k++) {
			pool->live[k] &= other && other->block_bytes == pool->block_bytes ? other->live[k] : 0;
			pool->live_nr += __builtin_popcountll(pool->live[k]);
		}
	}
}

uint64_t live_pools_sum(const struct live_pools *pools, uint64_t *ret_bytes)
{
	uint64_t nr = 0;

	*ret_bytes = 0;
	for (size_t i = 0; i < pools->pool_nr; i++) {
		nr += pools->pool[i].live_nr;
		*ret_bytes += (uint64_t)pools->pool[i].live_nr * pools->pool[i].block_bytes;
	}
	return nr;
}

void python_checked_note(struct python_checked *checked, struct live_pools *live)
{
	uint64_t others = live_pools_sum(live, &checked->older_bytes);

	if (checked->has_older) {
		live_pools_intersect(live, &checked->older);
		checked->older_nr = live_pools_sum(live, &checked->older_bytes);
		checked->unseen = others - checked->older_nr;
	} else {
		checked->older_nr = others;
	}
	live_pools_release(&checked->older);
	checked->older = *live;
	checked->has_older = true;
	*live = (struct live_pools){};
}
