// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/statistics.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine/estimate.h"
#include "engine/trace_cost.h"
#include "engine/order.h"
#include "engine/common_samples.h"
#include "snapshot.h"

/* ---- one side -------------------------------------------------------------------------------- */

/*
 * The costs of one side, by key id. Keys beyond the end cost nothing. A zeroed struct is an empty
 * one.
 */
struct column {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct cost total;
	struct sums_column sums; /* set if estimates are requested */
	double unseen_bytes, unseen_apart_bytes; /* see struct weighing */
	bool is_open;
};

static void column_release(struct column *column)
{
	free(column->cost);
	sums_column_release(&column->sums);
}

static struct cost column_get(const struct column *column, size_t key)
{
	return key < column->cost_nr ? column->cost[key] : (struct cost){};
}

static int column_grow(struct column *column, uint32_t key)
{
	int err = array_reserve(&column->cost, &column->cost_alloc, key + 1ull);

	while (!err && column->cost_nr <= key)
		column->cost[column->cost_nr++] = (struct cost){};
	return err;
}

static int column_add(struct column *column, const struct key_list *list, const struct cost *cost,
		      struct reason *why)
{
	for (size_t i = 0; i < list->id_nr; i++) {
		uint32_t key = list->id[i];
		int err = key < column->cost_nr ? 0 : column_grow(column, key);

		if (!err)
			err = engine_cost_add(&column->cost[key], cost, why);
		if (err)
			return err;
	}
	return engine_cost_add(&column->total, cost, why);
}

static int column_add_costs(struct column *column, struct keyspace *keys,
			    struct key_source *source, const struct costs *costs,
			    struct reason *why)
{
	struct key_list list = {};
	int err = 0;

	for (size_t i = 0; i < costs->cost_nr && !err; i++) {
		if (!costs->cost[i].count)
			continue;
		err = keyspace_find(keys, source, i, &list);
		if (!err)
			err = column_add(column, &list, &costs->cost[i], why);
		if (!err && costs->sums)
			err = sums_column_add(&column->sums, &list, &costs->sums[i]);
	}
	column->sums.total = costs->total;
	free(list.id);
	return err;
}

/* Errors as from snapshot_statistics(); after one the column can only be released. */
static int column_fill(struct column *column, struct keyspace *keys, const struct side *side,
		struct reason *why)
{
	struct key_source source = {};
	struct costs costs = {};
	struct source traces;
	int err;

	column->unseen_bytes = side->weighing.unseen_bytes;
	column->unseen_apart_bytes = side->weighing.unseen_apart_bytes;
	column->is_open = side->weighing.is_open;
	err = source_init(&traces, side->snapshot, keys->options);
	if (side->weighing.gap_ns)
		traces.gap_ns = side->weighing.gap_ns;
	if (!err)
		err = key_source_init(&source, &traces);
	if (!err)
		err = costs_fill(&costs, &source.classes, &side->weighing, why);
	if (!err)
		err = column_add_costs(column, keys, &source, &costs, why);
	key_source_release(&source);
	source_release(&traces);
	costs_release(&costs);
	return err;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* The first member is the caller's result; the others own the memory that it points into. */
struct result {
	struct statistics statistics;
	struct key_memory memory;
	struct estimate *estimate; /* for each key, then for the total; NULL if no estimates are requested */
};

/* ---- estimates ---------------------------------------------------------------------------- */

/* Reads a key's values from a column, or the total. */
static int side_get(struct estimate_side *side, const struct column *column, size_t key, bool is_total,
		    struct reason *why)
{
	side->sampled = is_total ? column->total : column_get(column, key);
	side->sums = is_total ? column->sums.total : sums_column_get(&column->sums, key);
	side->cost = side->sampled;
	side->unseen_bytes = column->unseen_bytes;
	side->unseen_apart_bytes = column->unseen_apart_bytes;
	side->is_open = column->is_open;
	return estimate_cost(&side->cost, &side->sums, why);
}

/* old is NULL for statistics(), here and below. Replaces the costs of samples by estimates. */
static int estimate_one(struct estimate *estimate, const struct column *new,
			const struct column *old, size_t key, bool is_total, struct cost ret_cost[2],
			struct reason *why)
{
	struct estimate_side now, before;
	int err = side_get(&now, new, key, is_total, why) ?:
		  side_get(&before, old ?: new, key, is_total, why);

	if (err)
		return err;
	*estimate = estimate_make(&now, old ? &before : NULL);
	ret_cost[0] = now.cost;
	ret_cost[1] = before.cost;
	return 0;
}

static int estimate_rows(struct statistic *row, size_t nr, struct estimate *estimate,
			 const struct column *new, const struct column *old, struct reason *why)
{
	struct cost cost[2];

	for (size_t i = 0; i < nr; i++) {
		int err = estimate_one(&estimate[i], new, old, i, false, cost, why);

		if (err)
			return err;
		row[i].cost = cost[0];
		row[i].diff = cost_sub(&cost[0], &cost[1]);
		row[i].estimate = &estimate[i];
	}
	return 0;
}

static int estimate_all(struct result *result, struct statistic *row, size_t nr,
			const struct column *new, const struct column *old, struct reason *why)
{
	struct cost cost[2];
	int err;

	result->estimate = calloc(nr + 1, sizeof(*result->estimate));
	if (!result->estimate)
		return -ENOMEM;
	err = estimate_rows(row, nr, result->estimate, new, old, why) ?:
	      estimate_one(&result->estimate[nr], new, old, 0, true, cost, why);
	if (err)
		return err;
	result->statistics.total = cost[0];
	result->statistics.total_diff = cost_sub(&cost[0], &cost[1]);
	result->statistics.total_estimate = &result->estimate[nr];
	return 0;
}

/* ---- the result --------------------------------------------------------------------------- */

static void rows_fill(struct statistic *row, size_t nr, const struct keyspace *keys,
		      const struct column *new, const struct column *old)
{
	for (size_t i = 0; i < nr; i++) {
		struct cost now = column_get(new, i), before = column_get(old ?: new, i);

		keyspace_view(keys, i, &row[i]);
		row[i].cost = now;
		row[i].diff = cost_sub(&now, &before);
	}
}

static void rows_sort(struct statistic *row, size_t nr, const struct keyspace *keys,
		      const struct column *old)
{
	if (old)
		statistics_sort_diff(row, nr, keys->options->sort);
	else
		statistics_sort(row, nr);
}

static void result_fill(struct result *result, struct keyspace *keys, struct statistic *row,
			size_t nr, const struct column *new, const struct column *old)
{
	rows_fill(row, nr, keys, new, old);
	result->memory = keyspace_take_memory(keys);
	result->statistics = (struct statistics){
		.key_type = keys->options->key_type,
		.measure = keys->options->measure,
		.cumulative = keys->options->cumulative,
		.is_diff = old != NULL,
		.statistic = row,
		.statistic_nr = nr,
		.total = new->total,
		.total_diff = cost_sub(&new->total, old ? &old->total : &new->total),
	};
}

static int result_make(struct keyspace *keys, const struct column *new, const struct column *old,
		       bool has_estimates, struct statistics **ret, struct reason *why)
{
	size_t nr = keyspace_nr(keys);
	struct statistic *row = calloc(nr ?: 1, sizeof(*row));
	struct result *result = calloc(1, sizeof(*result));
	int err = 0;

	if (!row || !result) {
		free(row);
		free(result);
		return -ENOMEM;
	}
	result_fill(result, keys, row, nr, new, old);
	if (has_estimates)
		err = estimate_all(result, row, nr, new, old, why);
	if (err) {
		statistics_free(&result->statistics);
		return err;
	}
	rows_sort(row, result->statistics.statistic_nr, keys, old);
	*ret = &result->statistics;
	return 0;
}

int engine_options_check(const struct engine_options *options, struct reason *why)
{
	if ((unsigned int)options->key_type >= KEY_TYPE_NR)
		return reason_set(why, -EINVAL, "no such key type: %u", options->key_type);
	if ((unsigned int)options->sort >= SORT_ORDER_NR)
		return reason_set(why, -EINVAL, "no such order: %u", options->sort);
	if (options->cumulative && !key_type_has_cumulative(options->key_type))
		return reason_set(why, -EINVAL, "cumulative mode cannot be used with key type "
						"\"%s\"", key_type_name(options->key_type));
	return measure_check(options, why);
}

static bool has_weights(const struct snapshot *snapshot)
{
	return snapshot && snapshot__tables(snapshot)->trace_weight;
}

/*
 * Whether nothing tells how far off estimates are. Blocks that were chosen may be missing, or gone: all that were born after
 * the last gap are known. Or the samples were not chosen by chance: pools.
 */
static bool is_open(const struct snapshot *snapshot, const struct engine_options *options)
{
	return snapshot && ((snapshot__tables(snapshot)->gap_nr && !options->select.no_gap_blocks) ||
			    snapshot_samples_pools(snapshot));
}

static double coarsest_rate(const struct snapshot *snapshot)
{
	return has_weights(snapshot) ? snapshot__metadata_u64(snapshot, "sample_bytes_most", 0) : 0;
}

int statistics_make(const struct side *old, const struct side *new,
		    const struct engine_options *options, struct statistics **ret,
		    struct reason *why)
{
	struct column before = {}, now = {};
	struct keyspace keys;
	int err;

	keyspace_init(&keys, options);
	err = column_fill(&now, &keys, new, why);
	if (!err && old)
		err = column_fill(&before, &keys, old, why);
	if (!err)
		err = result_make(&keys, &now, old ? &before : NULL, new->weighing.is_asked, ret, why);
	column_release(&now);
	column_release(&before);
	keyspace_release(&keys);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int ask_both(const struct snapshot *old, const struct snapshot *new,
		    const struct engine_options *options, const struct pairing *pairing,
		    struct statistics **ret, struct reason *why)
{
	bool is_asked = !options->measure && (has_weights(old) || has_weights(new));
	uint64_t gap_ns = old ? pairing_gap_ns(old, new) : 0;
	double unseen = coarsest_rate(new), old_unseen = old ? coarsest_rate(old) : 0;
	bool is_later = old && !snapshots_thinned_between(old, new);
	const struct side before = { old, { is_asked, pairing->old_pairs, gap_ns, NULL, old_unseen, old_unseen,
					    is_open(old, options) } };
	const struct side now = { new, { is_asked, pairing->new_pairs, gap_ns, NULL, unseen, is_later ? 0 : unseen,
					 is_open(new, options) } };

	return statistics_make(old ? &before : NULL, &now, options, ret, why);
}

static int compute_statistics(const struct snapshot *old, const struct snapshot *new,
			      const struct engine_options *options, struct statistics **ret, struct reason *why)
{
	struct pairing pairing = {};
	int err;

	err = engine_options_check(options, why);
	if (!err && has_weights(old) && has_weights(new) && !options->measure)
		err = pairing_find(&pairing, old, new, options, why);
	if (!err)
		err = ask_both(old, new, options, &pairing, ret, why);
	pairing_release(&pairing);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why)
{
	return compute_statistics(NULL, snapshot, options, ret, why);
}

int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why)
{
	return compute_statistics(old_snapshot, new_snapshot, options, ret, why);
}

void statistics_free(struct statistics *statistics)
{
	struct result *result = (struct result *)statistics;

	if (!result)
		return;
	free(result->memory.views);
	free(result->memory.texts);
	free(result->estimate);
	free(statistics->statistic);
	free(result);
}
