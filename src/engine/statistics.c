// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine/cost.h"
#include "engine/keyspace.h"
#include "engine/measure.h"
#include "engine/order.h"
#include "snapshot.h"

/* What the caller holds is the first member; the rest is what it points into. */
struct result {
	struct statistics statistics;
	struct key_memory memory;
};

/* One snapshot's costs by key id. Keys beyond the end cost nothing. */
struct column {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct cost total;
};

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
			err = cost_add(&column->cost[key], cost, why);
		if (err)
			return err;
	}
	return cost_add(&column->total, cost, why);
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
	}
	free(list.id);
	return err;
}

static int column_fill(struct column *column, struct keyspace *keys,
		       const struct snapshot *snapshot, struct reason *why)
{
	struct key_source source = {};
	struct costs costs = {};
	struct source traces;
	int err;

	err = source_init(&traces, snapshot, keys->options);
	if (!err)
		err = key_source_init(&source, &traces);
	if (!err)
		err = costs_fill(&costs, &source.classes, why);
	if (!err)
		err = column_add_costs(column, keys, &source, &costs, why);
	key_source_release(&source);
	source_release(&traces);
	free(costs.cost);
	return err;
}

/* old is NULL for statistics(), here and below. */
static void rows_fill(struct statistic *row, size_t nr, const struct keyspace *keys,
		      const struct column *new, const struct column *old)
{
	for (size_t i = 0; i < nr; i++) {
		struct cost now = column_get(new, i), before = column_get(old ?: new, i);

		keyspace_view(keys, i, &row[i]);
		row[i].cost = now;
		row[i].diff = cost_sub(&now, &before);
	}
	if (old)
		statistics_sort_diff(row, nr, keys->options->sort);
	else
		statistics_sort(row, nr);
}

static int result_make(struct keyspace *keys, const struct column *new, const struct column *old,
		       struct statistics **ret)
{
	size_t nr = keyspace_nr(keys);
	struct statistic *row = calloc(nr ?: 1, sizeof(*row));
	struct result *result = calloc(1, sizeof(*result));

	if (!row || !result) {
		free(row);
		free(result);
		return -ENOMEM;
	}
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

static int make_statistics(const struct snapshot *old, const struct snapshot *new,
			   const struct engine_options *options, struct statistics **ret,
			   struct reason *why)
{
	struct column before = {}, now = {};
	struct keyspace keys;
	int err;

	err = engine_options_check(options, why);
	if (err)
		return err;
	keyspace_init(&keys, options);
	err = column_fill(&now, &keys, new, why);
	if (!err && old)
		err = column_fill(&before, &keys, old, why);
	if (!err)
		err = result_make(&keys, &now, old ? &before : NULL, ret);
	free(now.cost);
	free(before.cost);
	keyspace_release(&keys);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

int snapshot_statistics(const struct snapshot *snapshot, const struct engine_options *options,
			struct statistics **ret, struct reason *why)
{
	return make_statistics(NULL, snapshot, options, ret, why);
}

int snapshot_compare(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot,
		     const struct engine_options *options, struct statistics **ret,
		     struct reason *why)
{
	return make_statistics(old_snapshot, new_snapshot, options, ret, why);
}

void statistics_free(struct statistics *statistics)
{
	struct result *result = (struct result *)statistics;

	if (!result)
		return;
	free(result->memory.views);
	free(result->memory.texts);
	free(statistics->statistic);
	free(result);
}
