// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "base/reason.h"
#include "engine/cost.h"
#include "engine/selector.h"
#include "snapshot.h"

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
		err = cost_add(cost, &(struct cost){ trace.size, 1 }, why);
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
