/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_RECORDING_CLOCK_H
#define ALLOCSNAP_FLEET_RECORDING_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/selection.h"

/*
 * When the snapshots of one recording of a process were made, in nanoseconds after the first: whole numbers, so that
 * what has not changed has a slope of 0 and no rounding error.
 */
struct recording_clock {
	uint32_t snapshot_nr;
	int64_t first_ns, last_ns;
	__int128 sum_ns;
	long double square; /* the sum of (t - mean t)^2, ns^2; 0: there is one time only */
	bool has_gap_blocks; /* blocks that may be gone, in one of them */
};

/* By the facts' number of the recording; 0 snapshots: it is not in the cohort. free() ends it; NULL: no memory. */
struct recording_clock *recording_clocks(const struct fleet_facts *facts, const struct cohort *cohort);

/* (t - mean t) × snapshot_nr: exact. */
__int128 recording_clock_lever(const struct recording_clock *clock, int64_t clock_ns);

/* Adds (t - mean t) × snapshot_nr × bytes. 0 or -ERANGE, with a line. */
int recording_moment_add(__int128 *moment, __int128 lever, int64_t bytes, struct reason *why);

#endif
