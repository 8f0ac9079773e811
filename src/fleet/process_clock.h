/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PROCESS_CLOCK_H
#define ALLOCSNAP_FLEET_PROCESS_CLOCK_H

#include <stdint.h>

#include "fleet/selection.h"

/*
 * When the snapshots of a process were made, in nanoseconds after the first: whole numbers, so that what has not
 * changed has a slope of 0 and no rounding error.
 */
struct process_clock {
	uint32_t snapshot_nr;
	int64_t first_ns;
	__int128 sum_ns;
	long double square; /* the sum of (t - mean t)^2, ns^2; 0: there is one time only */
};

/* By the facts' number of the process; 0 snapshots: it is not in the cohort. free() ends it; NULL: no memory. */
struct process_clock *process_clocks(const struct fleet_facts *facts, const struct cohort *cohort);

/* (t - mean t) × snapshot_nr: exact. */
__int128 process_clock_lever(const struct process_clock *clock, int64_t clock_ns);

#endif
