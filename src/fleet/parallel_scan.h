/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PARALLEL_SCAN_H
#define ALLOCSNAP_FLEET_PARALLEL_SCAN_H

/*
 * Reads the rows of a cohort on all processors, and hands them to visit(), which adds them up. The cohort is cut into
 * the same lanes whatever the number of threads: sums of doubles depend on their order. All snapshots of a unit are
 * in one lane, one after another, in the order of the cohort: by process, and then by time.
 */

#include <stddef.h>

#include "fleet/catalogue.h"
#include "fleet/row_codec.h"
#include "fleet/selection.h"

#define WALK_LANES 8

enum walk_unit {
	WALK_BY_PROCESS,
	WALK_BY_HOST,
};

struct walk {
	const struct catalogue *catalogue;
	const struct cohort *cohort;
	uint32_t origin_nr;
	enum walk_unit unit;
	/*
	 * One thread calls both for all of a lane. Rows have spread if the snapshot is_sampled. Each returns 0, or a
	 * negative errno, which ends the walk. unit_end() may be NULL; it is called after the last snapshot of a
	 * unit.
	 */
	int (*visit)(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		     const struct fleet_rows *rows, struct reason *why);
	int (*unit_end)(void *what, unsigned int lane, struct reason *why);
	void *what;
};

/* Returns 0, or the first error, with a line in *why. */
int fleet_walk(const struct walk *walk, struct reason *why);

#endif
