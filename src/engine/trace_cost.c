// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/trace_cost.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/parallel.h"
#include "base/reason.h"
#include "engine/selector.h"
#include "engine/tally.h"
#include "snapshot.h"

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

/*
 * Adds every trace to the cost of its traceback, without a test for each trace: there may be
 * millions. Uses two threads if there are many traces and more than one processor. cost: zeroed, by
 * traceback id. Returns false if the sum of all sizes may not fit into 63 bits; cost is then
 * invalid.
 */
static bool add_all_traces(struct cost *cost, const struct snapshot_tables *tables)
{
	struct part all = { .tables = tables, .to = tables->trace_nr, .pair = (cost_pair *)cost };
	cost_pair *second = NULL;
	bool fits;

	if (tables->trace_nr >= WORTH_A_THREAD && processor_nr() > 1)
		second = calloc(tables->traceback_nr, sizeof(*second));
	if (second) {
		fits = add_in_two(&all, second);
		free(second);
		return fits;
	}
	add_part(&all);
	return all.bound >= 0;
}

int cost_too_much(struct reason *why)
{
	return reason_set(why, -ERANGE, "the sizes add up to more than 2^63 - 1 bytes");
}

int engine_cost_add(struct cost *to, const struct cost *what, struct reason *why)
{
	if (__builtin_add_overflow(to->size, what->size, &to->size) ||
	    __builtin_add_overflow(to->count, what->count, &to->count))
		return cost_too_much(why);
	return 0;
}

struct cost cost_sub(const struct cost *a, const struct cost *b)
{
	return (struct cost){ .size = a->size - b->size, .count = a->count - b->count };
}

/* Adds the cost of one trace. Returns false if the sum does not fit. */
static inline bool add_trace(struct cost *cost, const uint64_t *size, const struct tally *tally,
			     uint64_t at)
{
	if (tally)
		return !engine_cost_add(cost, &tally->cost[at], NULL);
	cost->count++; /* cannot overflow */
	return !__builtin_add_overflow(cost->size, size[at], &cost->size);
}

/* ---- by traceback ------------------------------------------------------------------------- */

static void drop_tracebacks(struct costs *costs, struct selector *selector)
{
	for (size_t i = 0; i < costs->cost_nr; i++)
		if (costs->cost[i].count && !selector_takes_traceback(selector, i))
			costs->cost[i] = (struct cost){};
}

static int add_chosen(struct costs *costs, struct selector *selector, const struct tally *tally,
		      struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;

	for (uint64_t i = 0; i < tables->trace_nr; i++)
		if (selector_takes(selector, i) &&
		    !add_trace(&costs->cost[tables->trace_traceback[i]], tables->trace_size, tally, i))
			return cost_too_much(why);
	return 0;
}

static int add_by_traceback(struct costs *costs, struct selector *selector,
			    const struct tally *tally, struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;

	costs->cost_nr = tables->traceback_nr ?: 1;
	costs->cost = calloc(costs->cost_nr, sizeof(*costs->cost));
	if (!costs->cost)
		return -ENOMEM;
	if (!selector->is_per_trace && !tally) {
		if (add_all_traces(costs->cost, tables)) {
			drop_tracebacks(costs, selector);
			return 0;
		}
		memset(costs->cost, 0, costs->cost_nr * sizeof(*costs->cost));
	}
	return add_chosen(costs, selector, tally, why);
}

/* ---- by class ----------------------------------------------------------------------------- */

static int reach_class(struct costs *costs, uint32_t class)
{
	int err = 0;

	while (costs->cost_nr <= class && !err)
		err = array_push(costs, cost, (struct cost){});
	return err;
}

static int add_by_class(struct costs *costs, struct selector *selector, struct classes *classes,
			const struct class_type *type, const struct tally *tally,
			struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;
	int err = type->prepare ? type->prepare(classes, why) : 0;
	uint32_t class;

	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		if (!selector_takes(selector, i))
			continue;
		err = type->find(classes, i, &class);
		if (!err && class >= costs->cost_nr)
			err = reach_class(costs, class);
		if (!err && !add_trace(&costs->cost[class], tables->trace_size, tally, i))
			err = cost_too_much(why);
	}
	return err;
}

/* ---- estimates ---------------------------------------------------------------------------- */

/* A tally without sums is exact: its blocks were not sampled, and each stands for itself. */
static void add_tally(struct sums *group, struct sums *total, const struct tally *tally, uint64_t at)
{
	const struct sums exact = { .samples = tally->cost[at].count };
	const struct sums *sums = tally->sums ? &tally->sums[at] : &exact;

	if (!tally->cost[at].count)
		return;
	sums_add(group, sums);
	sums_add(total, sums);
}

static void add_sums_of_trace(struct costs *costs, uint32_t group, const struct snapshot_tables *tables,
			      const struct weighing *weighing, uint64_t at)
{
	double weight = tables->trace_weight ? tables->trace_weight[at] : 1;
	uint8_t pair = weighing->pairs ? weighing->pairs[at] : 0;

	if (weighing->tally)
		add_tally(&costs->sums[group], &costs->total, weighing->tally, at);
	else
		sums_add_block(&costs->sums[group], &costs->total, tables->trace_size[at], weight, pair);
}

/* Reads the traces a second time; sampled snapshots have few. */
static int add_sums(struct costs *costs, struct selector *selector, struct classes *classes,
		    const struct class_type *type, const struct weighing *weighing)
{
	const struct snapshot_tables *tables = selector->source->tables;
	int err = 0;

	costs->sums = calloc(costs->cost_nr ?: 1, sizeof(*costs->sums));
	if (!costs->sums)
		return -ENOMEM;
	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		uint32_t at = tables->trace_traceback[i];

		if (!selector_takes(selector, i))
			continue;
		if (type)
			err = type->find(classes, i, &at);
		if (!err)
			add_sums_of_trace(costs, at, tables, weighing, i);
	}
	return err;
}

/* ---- the whole ---------------------------------------------------------------------------- */

int costs_fill(struct costs *costs, struct classes *classes, const struct weighing *weighing,
	       struct reason *why)
{
	const struct key_type_row *row = key_type_row(classes->source->options->key_type);
	struct selector selector;
	int err;

	err = selector_init(&selector, classes->source, why);
	if (err)
		return err;
	if (classes->source->options->measure)
		err = measure_tracebacks(costs, &selector, classes->source->options->measure, why);
	else if (row->kind == KEY_IS_CLASS)
		err = add_by_class(costs, &selector, classes, row->classes, weighing->tally, why);
	else
		err = add_by_traceback(costs, &selector, weighing->tally, why);
	if (!err && weighing->is_asked)
		err = add_sums(costs, &selector, classes, row->classes, weighing);
	selector_release(&selector);
	return err;
}

void costs_release(struct costs *costs)
{
	free(costs->cost);
	free(costs->sums);
	*costs = (struct costs){};
}

struct churn_cost {
	uint64_t size, count;
};

static struct churn_cost allocated(const struct snap_churn *churn)
{
	return (struct churn_cost){ churn->allocated_bytes, churn->allocations };
}

static struct churn_cost temporary(const struct snap_churn *churn)
{
	return (struct churn_cost){ churn->temporary_bytes, churn->temporary };
}

static const struct {
	const char *name;
	struct churn_cost (*cost)(const struct snap_churn *churn);
} measures[] = {
	[MEASURE_LIVE] = { "live", NULL },
	[MEASURE_ALLOCATED] = { "allocated", allocated },
	[MEASURE_TEMPORARY] = { "temporary", temporary },
};
_Static_assert(ARRAY_SIZE(measures) == MEASURE_NR, "every measure has a row");

const char *measure_name(enum measure measure)
{
	return measures[measure].name;
}

int measure_parse(const char *text, enum measure *ret_measure, struct reason *why)
{
	for (enum measure i = 0; i < MEASURE_NR; i++) {
		if (strcmp(text, measures[i].name))
			continue;
		*ret_measure = i;
		return 0;
	}
	return reason_set(why, -EINVAL, "unknown measure \"%s\"; there are live, allocated, temporary",
			  text);
}

static bool has_domain(const struct selection *selection)
{
	for (size_t i = 0; i < selection->filter_nr; i++)
		if (selection->filter[i].has_domain)
			return true;
	return false;
}

int measure_check(const struct engine_options *options, struct reason *why)
{
	const struct selection *select = &options->select;

	if ((unsigned int)options->measure >= MEASURE_NR)
		return reason_set(why, -EINVAL, "no such measure: %u", options->measure);
	if (options->measure == MEASURE_LIVE)
		return 0;
	if (key_type_row(options->key_type)->kind == KEY_IS_CLASS || has_domain(select) ||
	    selection_asks_blocks(select))
		return reason_set(why, -EINVAL, "measure \"%s\" is counted by traceback, and not "
				  "by domain, process, size, age, thread or gap", measures[options->measure].name);
	return 0;
}

int measure_tracebacks(struct costs *costs, struct selector *selector, enum measure measure,
		       struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;

	/* Profiles of other tools know what was allocated, but not what was temporary. */
	if (!tables->churn ||
	    (measure == MEASURE_TEMPORARY && snapshot__metadata(selector->source->snapshot, "source")))
		return reason_set(why, -ENODATA, "the snapshot does not say what was %s",
				  measures[measure].name);
	costs->cost_nr = tables->traceback_nr ?: 1;
	costs->cost = calloc(costs->cost_nr, sizeof(*costs->cost));
	if (!costs->cost)
		return -ENOMEM;
	for (uint32_t i = 0; i < tables->traceback_nr; i++) {
		struct churn_cost cost = measures[measure].cost(&tables->churn[i]);

		if (!cost.count || !selector_takes_traceback(selector, i))
			continue;
		if (cost.size > INT64_MAX || cost.count > INT64_MAX)
			return reason_set(why, -ERANGE, "the sizes add up to more than 2^63 - 1 bytes");
		costs->cost[i] = (struct cost){ cost.size, cost.count };
	}
	return 0;
}
