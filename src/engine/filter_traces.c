// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "engine/trace_cost.h"
#include "engine/selector.h"
#include "snapshot.h"

static void choose_each(struct selector *selector, uint8_t *keep)
{
	for (uint64_t i = 0; i < selector->source->tables->trace_nr; i++)
		keep[i] = selector_takes(selector, i);
}

/* Like choose_each(), if only the traceback matters: decides once for each traceback. */
static int choose_by_traceback(struct selector *selector, uint8_t *keep)
{
	const struct snapshot_tables *tables = selector->source->tables;
	uint8_t *takes = malloc(tables->traceback_nr ?: 1);

	if (!takes)
		return -ENOMEM;
	for (uint32_t i = 0; i < tables->traceback_nr; i++)
		takes[i] = selector_takes_traceback(selector, i);
	for (uint64_t i = 0; i < tables->trace_nr; i++)
		keep[i] = takes[tables->trace_traceback[i]];
	free(takes);
	return 0;
}

static int select_traces(struct selector *selector, struct snapshot **ret)
{
	uint8_t *keep = malloc(selector->source->tables->trace_nr ?: 1);
	int err = 0;

	if (!keep)
		return -ENOMEM;
	if (selector->is_per_trace)
		choose_each(selector, keep);
	else
		err = choose_by_traceback(selector, keep);
	if (!err)
		err = snapshot__select(selector->source->snapshot, keep, ret);
	free(keep);
	return err;
}

/* Marks the snapshot as a part, so that a reader does not mistake it for the whole. */
static int note_part(struct snapshot *part, const struct selection *select, struct reason *why)
{
	int err;

	if ((!select->filter_nr && !selection_asks_blocks(select)) ||
	    snapshot__metadata(part, "filters"))
		return 0;
	err = snapshot__set_metadata(part, "filters", "traces that a program chose");
	if (err == -EOVERFLOW)
		reason_set(why, err, "the snapshot has no room for the metadata \"filters\"");
	return err;
}

int snapshot_filter_traces(const struct snapshot *snapshot, const struct engine_options *options,
			   struct snapshot **ret, struct reason *why)
{
	struct selector selector = {};
	struct snapshot *part = NULL;
	struct source source;
	int err;

	err = source_init(&source, snapshot, options);
	if (!err)
		err = selector_init(&selector, &source, why);
	if (!err)
		err = select_traces(&selector, &part);
	if (!err)
		err = note_part(part, &options->select, why);
	if (!err)
		*ret = part;
	else
		snapshot__close(part);
	selector_release(&selector);
	source_release(&source);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int add_gap_blocks(struct selector *selector, struct cost *cost, struct sums *sums,
			  struct reason *why)
{
	const struct snapshot_tables *tables = selector->source->tables;
	struct sums group = {};
	int err = 0;

	for (uint64_t i = 0; i < tables->trace_nr && !err; i++) {
		const struct snap_trace trace = snapshot__trace(selector->source->snapshot, i);

		if (!selector_is_gap_block(selector, i) || !selector_takes(selector, i))
			continue;
		if (trace.size > INT64_MAX)
			return cost_too_much(why);
		err = engine_cost_add(cost, &(struct cost){ trace.size, 1 }, why);
		sums_add_block(&group, sums, trace.size, trace.weight, 0);
	}
	return err;
}

int snapshot_gap_blocks(const struct snapshot *snapshot, const struct engine_options *options,
			struct cost *ret, struct reason *why)
{
	struct selector selector = {};
	struct cost cost = {};
	struct sums sums = {};
	struct source source;
	int err;

	err = source_init(&source, snapshot, options);
	if (!err)
		err = selector_init(&selector, &source, why);
	if (!err && source.gap_ns)
		err = add_gap_blocks(&selector, &cost, &sums, why);
	if (!err)
		err = estimate_cost(&cost, &sums, why);
	if (!err)
		*ret = cost;
	selector_release(&selector);
	source_release(&source);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
