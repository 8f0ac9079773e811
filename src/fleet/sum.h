/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SUM_H
#define ALLOCSNAP_FLEET_SUM_H

/*
 * A cohort's rows, added up by origin. The memory depends on the number of distinct origins, not on the number of
 * snapshots. While rows are added, each lane (parallel_scan.h) has a sum of its own: 16 bytes for each origin, and with
 * samples 48 more, or 100 more if a process has several snapshots. All lanes and the result take at most 144, 632 or
 * 1,048 bytes for each origin.
 *
 * Several snapshots of one process have largely the same blocks, and so the same luck: their errors add up as
 * deviations. The errors of different processes add up as variances.
 */

#include "engine/tally.h"
#include "fleet/selection.h"

struct fleet_sum {
	struct cost *cost; /* by origin */
	struct sums *sums; /* by origin, if a snapshot of the cohort was sampled; otherwise NULL */
	uint32_t origin_nr;
	/*
	 * The coarsest rate that a budget used (struct tally), or for several snapshots of one process the sum of their
	 * coarsest rates: they lack the same blocks.
	 */
	double unseen_bytes;
	bool is_open; /* a recording has pools as samples, or blocks that lived through a gap; the catalogue does not know of other gaps */
};

/* Returns 0, -ENOMEM, -EBADMSG, or -ERANGE (2^63 bytes or more, see cohort_explain_error()), with a line in *why. */
int fleet_sum_make(const struct catalogue *catalogue, const struct cohort *cohort, uint32_t origin_nr,
		   struct fleet_sum *ret, struct reason *why);

/*
 * A sum that is added up elsewhere: it has what the cohort's facts say, and no origin yet. fleet_sum_end() extends
 * costs and spreads to all origins, and completes them; 0 or -ENOMEM.
 */
struct fleet_sum fleet_sum_begin(const struct cohort *cohort);
int fleet_sum_end(struct fleet_sum *sum, uint32_t origin_nr);

bool cohort_has_samples(const struct cohort *cohort);

void fleet_sum_release(struct fleet_sum *sum);

#endif
