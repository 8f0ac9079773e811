/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_SPREAD_H
#define ALLOCSNAP_FLEET_SPREAD_H

/*
 * How groups differ between hosts, and how they grow. Ranks are nearest ranks: of n values in ascending
 * order the p-quantile is number ceil(p n), counted from 1. A host or process that has nothing of a group counts with 0.
 */

#include "engine/tally.h"
#include "fleet/selection.h"

struct snapshot;

/* What all of these are asked with. */
struct fleet_question {
	const struct catalogue *catalogue;
	const struct fleet_facts *facts;
	const struct cohort *cohort;
	const struct snapshot *dictionary;
	const struct groups *groups;
};

/* ---- hosts: a value is what one host's processes have together, at the latest snapshot of each --------- */

struct host_row {
	uint32_t group; /* of groups->key */
	int64_t median, p95, max, mad, sum; /* bytes; mad: the median of |value - median| */
	uint32_t max_host;  /* the facts' number; of several, the first by name */
	uint32_t hosts;	    /* that have it */
	uint32_t outliers;  /* hosts with value - median > 3.5 / 0.6745 × max(mad, 1 % of the median, 4 KiB) */
	double score;	    /* of max: (max - median) × 0.6745 over the same */
};

struct host_rows {
	struct host_row *row; /* outliers first, by max - median; then by max - median */
	size_t row_nr;
};

int fleet_hosts(const struct fleet_question *question, struct host_rows *ret, struct reason *why);
void host_rows_release(struct host_rows *rows);

/* What hosts are called, by number; they live as long as the facts. free() ends the array; NULL: no memory. */
const char **fleet_host_names(const struct fleet_facts *facts);

/* ---- trend: over all chosen snapshots ------------------------------------------------------------------- */

/*
 * slope: least squares of bytes over seconds (clock_ns: not moved where somebody sets a clock), with a level of its own
 * for each recording of a process,
 *	sum over recordings, snapshots of (t - mean t)(y - mean y)  /  the same of (t - mean t)^2
 * so that programs that come and go are no growth, nor a recorder that is started again a loss. Of all recordings that
 * have the group, and at least two snapshots at different times. What was recorded for longer counts for more.
 */
struct trend_row {
	uint32_t group;
	double slope;	 /* bytes a second, of a process that has it */
	double growth;	 /* bytes: what each recording gained by its own slope from its first to its last snapshot, together */
	double moment;	 /* what slope is made of: sum of (t - mean t)(y - mean y), ns × bytes */
	int64_t first, last; /* sums over recordings, at the first and the last snapshot of each */
	uint32_t processes;  /* that have it at any time */
};

struct trend_rows {
	struct trend_row *row; /* by moment, descending: by slope, but that of a few seconds does not come first */
	size_t row_nr;
	uint32_t processes;    /* that could have grown: with snapshots at two times */
};

int fleet_trend(const struct fleet_question *question, struct trend_rows *ret, struct reason *why);
void trend_rows_release(struct trend_rows *rows);

/* ---- leaks: groups that grow steadily on most hosts ---------------------------------------------------------- */

/*
 * A group grows steadily in a process of at least three snapshots if it ends higher than it began, of its steps from
 * one snapshot to the next at least half are up, and two, and of those that change it at least 3 in 4: what rises
 * once and stays there was warming up. On a host if it does in one of its processes. It is a leak where that is so
 * on at least half of the hosts that have it, and on two, or on the only one. Recordings of fewer snapshots do not
 * count, nor those with gaps that blocks have lived through (they may be gone, and pile up), nor hosts that have the
 * group in such ones only. A process that was recorded twice grows where it does in one of the recordings.
 */
struct leak_row {
	uint32_t group;
	uint32_t hosts, hosts_growing; /* that have it, of what could be judged; where it grows steadily */
	uint32_t processes, processes_growing;
	int64_t growth; /* bytes from first to last, of the recordings where it grows steadily */
	double slope;	/* bytes a second: as in struct trend_row, but of these recordings */
};

struct leak_rows {
	struct leak_row *row; /* leaks only, by growth, descending */
	size_t row_nr;
	uint32_t processes_short; /* that no recording has three snapshots of, and that could not be judged */
	uint32_t processes_in_gaps; /* nor these, for the gaps in what was recorded */
	uint32_t hosts_unjudged; /* that have no others */
};

int fleet_leaks(const struct fleet_question *question, struct leak_rows *ret, struct reason *why);
void leak_rows_release(struct leak_rows *rows);

#endif
