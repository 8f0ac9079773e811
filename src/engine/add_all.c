// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/add_all.h"

#include <stdlib.h>

#include "base/parallel.h"

/* struct cost as one value: adds both numbers at once; sizes wrap. */
typedef uint64_t cost_pair __attribute__((vector_size(16), may_alias));
_Static_assert(sizeof(cost_pair) == sizeof(struct cost), "a pair is a cost");

#define BLOCK_NR 32	/* traces: whole cache lines of each column */
#define AHEAD_NR 192	/* traces between the fetch of a value and its use; most of the cache is left for costs */
#define PER_LINE(column) (64 / sizeof(*(column)))

/*
 * Adds `nr` traces and returns the or of their sizes, so no size is larger. In a plain loop the
 * processor reads the columns ahead. It does not do so here, among all the accesses to costs, so
 * this function fetches them: that saves a quarter of the time. (The fetches are not in a function
 * of their own, because gcc drops calls of a function that does nothing else.)
 */
static uint64_t add_block(cost_pair *restrict pair, const uint32_t *traceback,
			  const uint64_t *size, size_t nr, bool fetch)
{
	uint64_t most = 0;

	if (fetch) {
		for (size_t i = 0; i < BLOCK_NR; i += PER_LINE(size))
			__builtin_prefetch(&size[AHEAD_NR + i]);
		for (size_t i = 0; i < BLOCK_NR; i += PER_LINE(traceback))
			__builtin_prefetch(&traceback[AHEAD_NR + i]);
	}
	for (size_t i = 0; i < nr; i++) {
		pair[traceback[i]] += (cost_pair){ size[i], 1 };
		most |= size[i];
	}
	return most;
}

/* A part of the traces, and its sum. */
struct part {
	const struct snapshot_tables *tables;
	uint64_t from, to;
	cost_pair *pair;
	int64_t bound; /* an upper bound of the sum of all sizes; < 0: it may not fit */
};

static void add_part(void *part_)
{
	struct part *part = part_;
	const struct snapshot_tables *tables = part->tables;
	int64_t block_bound;

	for (uint64_t at = part->from; at < part->to; at += BLOCK_NR) {
		uint64_t left = part->to - at;
		size_t nr = left < BLOCK_NR ? left : BLOCK_NR;
		uint64_t most = add_block(part->pair, &tables->trace_traceback[at],
					  &tables->trace_size[at], nr, left >= AHEAD_NR + BLOCK_NR);

		if (__builtin_mul_overflow(most, nr, &block_bound) ||
		    __builtin_add_overflow(part->bound, block_bound, &part->bound)) {
			part->bound = -1;
			return;
		}
	}
}

static bool parts_fit(const struct part *a, const struct part *b)
{
	int64_t bound;

	return a->bound >= 0 && b->bound >= 0 && !__builtin_add_overflow(a->bound, b->bound, &bound);
}

#define WORTH_A_THREAD (1 << 20) /* traces; starting a thread takes less time than it saves */

/* The second half is added to a table of its own. */
static bool add_in_two(const struct part *all, cost_pair *second_table)
{
	struct part first = *all, second = *all;

	first.to = second.from = all->from + (all->to - all->from) / 2;
	second.pair = second_table;
	run_both(add_part, &first, &second);
	for (uint32_t i = 0; i < all->tables->traceback_nr; i++)
		all->pair[i] += second_table[i];
	return parts_fit(&first, &second);
}

bool add_all_traces(struct cost *cost, const struct snapshot_tables *tables)
{
	struct part all = { .tables = tables, .to = tables->trace_nr, .pair = (cost_pair *)cost };
	cost_pair *second = NULL;
	bool fits;

	if (tables->trace_nr >= WORTH_A_THREAD && has_two_processors())
		second = calloc(tables->traceback_nr, sizeof(*second));
	if (second) {
		fits = add_in_two(&all, second);
		free(second);
		return fits;
	}
	add_part(&all);
	return all.bound >= 0;
}
