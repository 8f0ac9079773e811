// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind/word_pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void remove_hole(struct word_pool *pool, size_t i)
{
	memmove(pool->hole + i, pool->hole + i + 1, (--pool->hole_nr - i) * sizeof(*pool->hole));
}

static int64_t take_of(struct word_pool *pool, size_t i, uint32_t nr)
{
	struct free_words *hole = &pool->hole[i];
	uint32_t at = hole->at;

	hole->at += nr;
	hole->nr -= nr;
	if (!hole->nr)
		remove_hole(pool, i);
	return at;
}

int64_t word_pool_take(struct word_pool *pool, uint32_t nr, uint64_t most)
{
	uint32_t at = pool->end;

	for (size_t i = 0; i < pool->hole_nr; i++)
		if (pool->hole[i].nr >= nr)
			return take_of(pool, i, nr);
	if ((uint64_t)at + nr > most)
		return -E2BIG;
	pool->end += nr;
	return at;
}

/* If the last hole reaches the end, merges it with the free words behind it. */
static void trim_end(struct word_pool *pool)
{
	const struct free_words *last = pool->hole_nr ? &pool->hole[pool->hole_nr - 1] : NULL;

	if (!last || last->at + last->nr != pool->end)
		return;
	pool->end = last->at;
	pool->hole_nr--;
}

static void join_next(struct word_pool *pool, size_t i)
{
	struct free_words *hole = &pool->hole[i];

	if (i + 1 == pool->hole_nr || hole->at + hole->nr != hole[1].at)
		return;
	hole->nr += hole[1].nr;
	remove_hole(pool, i + 1);
}

void word_pool_give(struct word_pool *pool, uint32_t at, uint32_t nr)
{
	const struct free_words hole = { at, nr };
	size_t i = pool->hole_nr;

	if (!nr || array_reserve(&pool->hole, &pool->hole_alloc, pool->hole_nr + 1))
		return;
	while (i && pool->hole[i - 1].at > at)
		i--;
	memmove(pool->hole + i + 1, pool->hole + i, (pool->hole_nr++ - i) * sizeof(hole));
	pool->hole[i] = hole;
	join_next(pool, i);
	if (i)
		join_next(pool, i - 1);
	trim_end(pool);
}

void word_pool_leave(struct word_pool *pool, uint32_t at, uint32_t nr)
{
	if (nr && !array_reserve(&pool->left, &pool->left_alloc, pool->left_nr + 1))
		pool->left[pool->left_nr++] = (struct free_words){ at, nr };
}

void word_pool_settle(struct word_pool *pool)
{
	while (pool->left_nr) {
		const struct free_words *left = &pool->left[--pool->left_nr];

		word_pool_give(pool, left->at, left->nr);
	}
}

void word_pool_release(struct word_pool *pool)
{
	free(pool->hole);
	free(pool->left);
	*pool = (struct word_pool){};
}
