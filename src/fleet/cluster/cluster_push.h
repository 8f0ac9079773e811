/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_PUSH_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_PUSH_H

/*
 * Snapshots of a catalogue → row tables of a cluster. What the cluster has already is not sent. A push that is cut, at
 * any point, and run again leaves what one push would have left: rows that no snapshot row names count for nothing. If
 * two push one snapshot at the same time, both uploads are there, and questions take one of them.
 */

#include <stdbool.h>

#include "fleet/cluster/cluster.h"
#include "fleet/selection.h"
#include "push/push_endpoint.h"

struct catalogue;

struct cluster_push {
	struct catalogue *catalogue;
	const struct fleet_facts *facts;
	const struct cohort *cohort;
	size_t top; /* of each snapshot these rows with most bytes, and sums of the others; 0: all rows */
};

struct cluster_pushed {
	size_t snapshots, known; /* new ones, and those that were there */
	uint64_t rows;		 /* of the new ones */
};

/* Returns 0, or a negative errno and a line in *why; *ret says what was done in any case. */
int cluster_push(struct cluster *cluster, const struct cluster_push *job, struct cluster_pushed *ret,
		 struct reason *why);

/* Snapshot files → row tables of a cluster, many files at once; the queue of src/push/ says which of them wait. */

/* Whether a URL is a ClickHouse's: a host without a path. */
bool cluster_url_is_plain(const char *url);

extern const struct push_batch_protocol cluster_batch_protocol;

#endif
