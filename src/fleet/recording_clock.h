/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_RECORDING_CLOCK_H
#define ALLOCSNAP_FLEET_RECORDING_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/selection.h"

/*
 * The times of a recording's snapshots, in nanoseconds after its first one. They are integers, so that a group that
 * has not changed has slope 0 without a rounding error.
 */
struct recording_clock {
	uint32_t snapshot_nr;
	int64_t first_ns, last_ns;
	__int128 sum_ns;
	long double square; /* the sum of (t - mean t)^2, ns^2; 0: all times are the same */
	bool has_gap_blocks; /* one of the snapshots has blocks that may be gone */
};

/*
 * Returns an array by the facts' number of the recording; snapshot_nr is 0 if the cohort does not have the recording.
 * The caller ends it with free(). NULL: no memory.
 */
struct recording_clock *recording_clocks(const struct fleet_facts *facts, const struct cohort *cohort);

/* Returns (t - mean t) × snapshot_nr, exactly. */
__int128 recording_clock_lever(const struct recording_clock *clock, int64_t clock_ns);

/* Adds (t - mean t) × snapshot_nr × bytes. Returns 0, or -ERANGE with a line. */
int recording_moment_add(__int128 *moment, __int128 lever, int64_t bytes, struct reason *why);

#endif
