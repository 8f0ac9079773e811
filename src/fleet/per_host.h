/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PER_HOST_H
#define ALLOCSNAP_FLEET_PER_HOST_H

/*
 * How groups differ between hosts. Quantiles are nearest ranks: of n values in ascending order the
 * p-quantile is number ceil(p n), counted from 1. A host or process without the group counts with 0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "engine/tally.h"
#include "fleet/selection.h"

struct snapshot;

/* The input of a question. */
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

#endif
