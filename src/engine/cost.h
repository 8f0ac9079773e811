/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_COST_H
#define ALLOCSNAP_ENGINE_COST_H

#include "engine.h"

/* to += what. 0, or -ERANGE with a line in *why, and then `to` is of no use. */
int cost_add(struct cost *to, const struct cost *what, struct reason *why);

/* a − b, of sums of blocks: both are at least 0. */
struct cost cost_sub(const struct cost *a, const struct cost *b);

/*
 * What each traceback of the snapshot costs: an array by traceback id, of the traces that take
 * part in `options`; the caller frees it. Errors as in snapshot_statistics().
 */
int snapshot_costs(const struct snapshot *snapshot, const struct engine_options *options,
		   struct cost **ret_cost, struct reason *why);

#endif
