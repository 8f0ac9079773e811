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
 * for each process,
 *	sum over processes, snapshots of (t - mean t)(y - mean y)  /  the same of (t - mean t)^2
 * so that programs that come and go are no growth. Of all processes that have at least two snapshots at different times.
 */
struct trend_row {
	uint32_t group;
	double slope;	  /* bytes a second and process */
	double fleet_slope; /* times the processes that the slopes are made of */
	int64_t first, last; /* sums over processes, at the first and the last snapshot of each */
	uint32_t processes;  /* that have it at any time */
};

struct trend_rows {
	struct trend_row *row; /* by slope, descending */
	size_t row_nr;
	uint32_t processes;    /* that the slopes are made of */
};

int fleet_trend(const struct fleet_question *question, struct trend_rows *ret, struct reason *why);
void trend_rows_release(struct trend_rows *rows);

/* ---- leaks: groups that grow steadily on most hosts ---------------------------------------------------------- */

/*
 * A group grows steadily in a process of at least three snapshots if it ends higher than it began, of its steps from
 * one snapshot to the next at least half are up, and two, and of those that change it at least 3 in 4: what rises
 * once and stays there was warming up. On a host if it does in one of its processes. It is a leak where that is so
 * on at least half of the hosts that have it, and on two, or on the only one. Processes of fewer snapshots, and
 * hosts that have the group in such ones only, do not count.
 */
struct leak_row {
	uint32_t group;
	uint32_t hosts, hosts_growing; /* that have it, of what could be judged; where it grows steadily */
	uint32_t processes, processes_growing;
	int64_t growth; /* bytes from first to last, of the processes where it grows steadily */
	double slope;	/* as in struct trend_row */
};

struct leak_rows {
	struct leak_row *row; /* leaks only, by growth, descending */
	size_t row_nr;
	uint32_t processes_short; /* that have fewer than three snapshots, and could not be judged */
	uint32_t hosts_short; /* that have no others */
};

int fleet_leaks(const struct fleet_question *question, struct leak_rows *ret, struct reason *why);
void leak_rows_release(struct leak_rows *rows);

#endif
