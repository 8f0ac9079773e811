/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_COST_H
#define ALLOCSNAP_ENGINE_COST_H

#include "engine/estimate.h"
#include "engine/key_type.h"

/* -ERANGE and its line. */
int cost_too_much(struct reason *why);

/* to += what. 0, or -ERANGE with a line in *why, and then `to` is of no use. */
int cost_add(struct cost *to, const struct cost *what, struct reason *why);

/* a − b, of sums of blocks: both are at least 0. */
struct cost cost_sub(const struct cost *a, const struct cost *b);

/* By traceback id or, for a key type that has classes, by class. free(cost) ends it. */
struct costs {
	struct cost *cost;
	size_t cost_nr, cost_alloc;
	struct sums *sums; /* as many, where estimates are asked for; else NULL */
	struct sums total;
};

void costs_release(struct costs *costs);

/*
 * Adds up the traces of classes->source that take part, and the sums of their estimates where these
 * are asked for. Errors as in snapshot_statistics(); the
 * costs can only be freed then.
 */
int costs_fill(struct costs *costs, struct classes *classes, const struct weighing *weighing,
	       struct reason *why);

#endif
