/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_STATISTICS_H
#define ALLOCSNAP_ENGINE_STATISTICS_H

#include "engine/estimate.h"
#include "engine/keys.h"
#include "engine/trace_cost.h"

struct snapshot;

/* One side of a question: a snapshot, and the weights of its traces. */
struct side {
	const struct snapshot *snapshot;
	struct weighing weighing;
};

/*
 * Computes the answer for options that were checked. old NULL: no diff. Both sides must agree on
 * whether estimates are requested. Errors as from snapshot_statistics().
 */
int statistics_make(const struct side *old_side, const struct side *new_side,
		    const struct engine_options *options, struct statistics **ret,
		    struct reason *why);

#endif
