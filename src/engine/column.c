// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/column.h"

#include <stdlib.h>

#include "base/array.h"

void column_release(struct column *column)
{
	free(column->cost);
	sums_column_release(&column->sums);
}

struct cost column_get(const struct column *column, size_t key)
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
		if (!err && costs->sums)
			err = sums_column_add(&column->sums, &list, &costs->sums[i]);
	}
	column->sums.total = costs->total;
	free(list.id);
	return err;
}

int column_fill(struct column *column, struct keyspace *keys, const struct side *side,
		struct reason *why)
{
	struct key_source source = {};
	struct costs costs = {};
	struct source traces;
	int err;

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
