/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PER_HOST_H
#define ALLOCSNAP_FLEET_PER_HOST_H

/*
 * How groups differ between hosts, and how they grow. Quantiles are nearest ranks: of n values in ascending order the
 * p-quantile is number ceil(p n), counted from 1. A host or process without the group counts with 0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "engine/presummed.h"
#include "fleet/selection.h"

struct snapshot;

/* The input of each question below. */
struct fleet_question {
	const struct catalogue *catalogue;
	const struct fleet_facts *facts;
	const struct cohort *cohort;
	const struct snapshot *dictionary;
	const struct groups *groups;
};

/* ---- hosts: a value is the sum of one host's processes, each at its latest snapshot ------------------- */

struct host_row {
	uint32_t group; /* index in groups->key */
	int64_t median, p95, max, mad, sum; /* bytes; mad: the median of |value - median| */
	uint32_t max_host;  /* the facts' number; the first by name if several hosts have the maximum */
	uint32_t hosts;	    /* hosts that have the group */
	uint32_t outliers;  /* hosts with value - median > 3.5 / 0.6745 × max(mad, 1 % of the median, 4 KiB) */
	double score;	    /* of max: (max - median) × 0.6745 / max(mad, 1 % of the median, 4 KiB) */
};

struct host_rows {
	struct host_row *row; /* groups with outliers first; within both parts by max - median, descending */
	size_t row_nr;
};

int fleet_compare_hosts(const struct fleet_question *question, struct host_rows *ret, struct reason *why);
void host_rows_release(struct host_rows *rows);

/* For rows that were ranked elsewhere: adds the scores, and brings the rows in order. */
void host_rows_sort(struct host_rows *rows, const struct groups *groups);

/* The place of a quantile among nr values in ascending order, from 1. */
size_t nearest_rank(size_t nr, unsigned int percent);

/* Returns the hosts' names by number, which live as long as the facts. The caller frees the array. NULL: no memory. */
const char **fleet_host_names(const struct fleet_facts *facts);

/* ---- the times of a recording --------------------------------------------------------------------------- */

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
struct recording_clock *recording_clocks_make(const struct fleet_facts *facts, const struct cohort *cohort);

/* Returns (t - mean t) × snapshot_nr, exactly. */
__int128 recording_clock_lever(const struct recording_clock *clock, int64_t clock_ns);

/* Adds (t - mean t) × snapshot_nr × bytes. Returns 0, or -ERANGE with a line. */
int recording_moment_add(__int128 *moment, __int128 lever, int64_t bytes, struct reason *why);

/* ---- trend: over all chosen snapshots ------------------------------------------------------------------- */

/*
 * slope: least squares of bytes over seconds, with a separate level for each recording of a process:
 *	sum over recordings, snapshots of (t - mean t)(y - mean y)  /  the same of (t - mean t)^2
 * So programs that come and go are no growth, and a recorder that is started again is no loss. Times are clock_ns,
 * which do not move when the clock is set. The sum has all recordings that have the group and two or more snapshots
 * at different times. Longer recordings count for more.
 */
struct trend_row {
	uint32_t group;
	double slope;	 /* bytes a second, of a process that has the group */
	double growth;	 /* bytes: the sum of each recording's own slope times its time from first to last snapshot */
	double moment;	 /* the numerator of slope: sum of (t - mean t)(y - mean y), ns × bytes */
	int64_t first, last; /* sums over recordings, at the first and the last snapshot of each */
	uint32_t processes;  /* processes that have the group at any time */
};

struct trend_rows {
	/* by moment, descending: as by slope, but a slope of a few seconds does not come first */
	struct trend_row *row;
	size_t row_nr;
	uint32_t processes;    /* processes that could have grown: they have snapshots at two times */
	uint32_t processes_in_gaps; /* processes of which no recording can be judged, because of gaps */
};

int fleet_find_trends(const struct fleet_question *question, struct trend_rows *ret, struct reason *why);
void trend_rows_release(struct trend_rows *rows);

#endif
