// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/selector.h"
#include "snapshot.h"

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

	if (!tables->churn)
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
