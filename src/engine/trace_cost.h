/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TRACE_COST_H
#define ALLOCSNAP_ENGINE_TRACE_COST_H

#include "engine.h"
#include "engine/estimate.h"
#include "engine/keys.h"
#include "snapshot.h"

/* Returns -ERANGE, with its line in *why. */
int cost_too_much(struct reason *why);

/* to += what. 0, or -ERANGE with a line in *why; `to` is then invalid. */
int engine_cost_add(struct cost *to, const struct cost *what, struct reason *why);

/* a − b, for sums of blocks: both are at least 0. */
struct cost cost_sub(const struct cost *a, const struct cost *b);

/* Costs by traceback id or, for a key type that has classes, by class. costs_release() ends them. */
struct costs {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct sums *sums; /* one for each cost if estimates are requested; else NULL */
	struct sums total;
};

void costs_release(struct costs *costs);

/*
 * Adds up the selected traces of classes->source and, if requested, the sums for their estimates.
 * Errors as from snapshot_statistics(); after one the costs can only be released.
 */
int costs_fill(struct costs *costs, struct classes *classes, const struct weighing *weighing,
	       struct reason *why);

struct selector;

/* -EINVAL and a line in *why if the question is about blocks, but the measure is not. */
int measure_check(const struct engine_options *options, struct reason *why);

/*
 * The costs of all selected tracebacks, by a measure other than MEASURE_LIVE. -ENODATA, -ERANGE,
 * -ENOMEM with a line in *why.
 */
int measure_tracebacks(struct costs *costs, struct selector *selector, enum measure measure,
		       struct reason *why);

#endif
