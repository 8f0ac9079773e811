/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_STATISTICS_H
#define ALLOCSNAP_ENGINE_STATISTICS_H

#include "engine/estimate.h"

struct snapshot;

/* What a question is about, or one of the two: a snapshot, and what its traces stand for. */
struct side {
	const struct snapshot *snapshot;
	struct weighing weighing;
};

/*
 * The answer to options that have been checked. old NULL: no diff. Whether estimates are asked for
 * both sides say alike. Errors as in snapshot_statistics().
 */
int statistics_make(const struct side *old_side, const struct side *new_side,
		    const struct engine_options *options, struct statistics **ret,
		    struct reason *why);

#endif
