// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/cost.h"

#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "snapshot.h"

/* The traces that take part: [0, nr), and where birth is not NULL those born by `latest`. */
struct part {
	uint64_t nr;
	const uint64_t *birth_ns;
	uint64_t latest_ns;
};

static int too_much(struct reason *why)
{
	return reason_set(why, -ERANGE, "the sizes add up to more than 2^63 - 1 bytes");
}

int cost_add(struct cost *to, const struct cost *what, struct reason *why)
{
	if (__builtin_add_overflow(to->size, what->size, &to->size) ||
	    __builtin_add_overflow(to->count, what->count, &to->count))
		return too_much(why);
	return 0;
}

struct cost cost_sub(const struct cost *a, const struct cost *b)
{
	return (struct cost){ .size = a->size - b->size, .count = a->count - b->count };
}

static int part_of(const struct snapshot *snapshot, uint64_t min_age_ns, struct part *ret,
		   struct reason *why)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", UINT64_MAX);

	*ret = (struct part){ .nr = tables->trace_nr };
	if (!min_age_ns || !tables->trace_nr)
		return 0;
	if (!tables->trace_birth_ns)
		return reason_set(why, -ENODATA, "the snapshot has no birth times, hence no ages");
	if (now_ns == UINT64_MAX)
		return reason_set(why, -ENODATA, "the snapshot does not say when it was taken "
						 "(monotonic_ns), hence no ages");
	if (now_ns < min_age_ns)
		ret->nr = 0;
	ret->birth_ns = tables->trace_birth_ns;
	ret->latest_ns = now_ns - min_age_ns;
	return 0;
}

/* False where a traceback's size does not fit; its count always does. */
static bool add_traces(struct cost *cost, const struct snapshot_tables *tables,
		       const struct part *part)
{
	for (uint64_t i = 0; i < part->nr; i++) {
		struct cost *to = &cost[tables->trace_traceback[i]];

		if (part->birth_ns && part->birth_ns[i] > part->latest_ns)
			continue;
		if (__builtin_add_overflow(to->size, tables->trace_size[i], &to->size))
			return false;
		to->count++;
	}
	return true;
}

int snapshot_costs(const struct snapshot *snapshot, const struct engine_options *options,
		   struct cost **ret_cost, struct reason *why)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct cost *cost;
	struct part part;
	int err;

	err = part_of(snapshot, options->min_age_ns, &part, why);
	if (err)
		return err;
	cost = calloc(tables->traceback_nr ?: 1, sizeof(*cost));
	if (!cost)
		return -ENOMEM;
	if (!add_traces(cost, tables, &part)) {
		free(cost);
		return too_much(why);
	}
	*ret_cost = cost;
	return 0;
}
