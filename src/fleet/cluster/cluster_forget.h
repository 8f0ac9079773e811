/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_FORGET_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_FORGET_H

#include "fleet/cluster/cluster.h"
#include "fleet/selection.h"

/* All servers of a cluster, each once; or the one server. */
struct cluster_forget {
	struct cluster *const *server;
	size_t server_nr;
	const struct cohort *cohort;
};

/*
 * Removes the snapshots, also those that were pushed twice. Servers rewrite their tables for that, and this waits for
 * them. The snapshots' own rows go first: without them, the other rows count for nothing. Names stay. Nothing is removed
 * if the servers have not all rows of the snapshots. Returns 0, or a negative errno and a line in *why.
 */
int cluster_forget(const struct cluster_forget *job, struct reason *why);

#endif
