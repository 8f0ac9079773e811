/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SUM_H
#define ALLOCSNAP_FLEET_SUM_H

/*
 * A cohort's rows, added up by origin: memory for each distinct origin, whatever the number of snapshots. While
 * they are added, each lane (walk.h) has a sum of its own, of 16 bytes for each origin and 48 more
 * where there are samples, or 100 where a process has several snapshots: in all at most 144 bytes, 632, or 1,048.
 *
 * Several snapshots of one process have largely the same blocks, and so the same luck: what they may be wrong by
 * adds up as deviations. That of different processes adds up as variances.
 */

#include "engine/tally.h"
#include "fleet/selection.h"

struct fleet_sum {
	struct cost *cost; /* by origin */
	struct sums *sums; /* by origin, where a snapshot of the cohort was sampled; else NULL */
	uint32_t origin_nr;
};

/* 0, -ENOMEM, -EBADMSG, or -ERANGE (2^63 bytes or more, as cohort_error()), with a line in *why. */
int fleet_sum_make(const struct catalogue *catalogue, const struct cohort *cohort, uint32_t origin_nr,
		   struct fleet_sum *ret, struct reason *why);
void fleet_sum_release(struct fleet_sum *sum);

#endif
