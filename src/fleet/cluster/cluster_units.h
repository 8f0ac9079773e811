/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_UNITS_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_UNITS_H

/*
 * The answers of a cluster. It adds up and ranks; the engine here says what a line is, so that a cluster answers as a
 * catalogue does, whatever the key, the filters, and the names that snapshots lend each other.
 *
 *	cluster_units__sum()	for each cohort: sums by unit and domain
 *	cluster_units__names()	the names of these units (cluster_names.h)
 *	cluster_units__hosts()	hosts: the groups of each origin go there, and ranks come back
 *	cluster_rows__read()	the rows of each snapshot (cluster_rows.h)
 *
 * A unit is what the question needs of tracebacks: all of each, or the own frame alone.
 */

#include "fleet/cluster/cluster.h"
#include "fleet/per_host.h"
#include "fleet/selection.h"
#include "fleet/sum.h"

struct cluster_units;

/*
 * Functions return 0, or a negative errno and a line in *why. by_own_frame: own frames are enough. The cluster must
 * outlive the units.
 */
int cluster_units__new(struct cluster *cluster, bool by_own_frame, struct cluster_units **ret, struct reason *why);
void cluster_units__free(struct cluster_units *units); /* NULL is allowed */

/* The sum has the origins so far: fleet_sum_end() extends it. The caller releases it. */
int cluster_units__sum(struct cluster_units *units, const struct cohort *cohort, struct fleet_sum *ret,
		       struct reason *why);

/* Adds each traceback that the cluster has, for a question that reads snapshot files: these may have more than rows. */
int cluster_units__want_all(struct cluster_units *units, struct reason *why);

uint32_t cluster_units__origin_nr(const struct cluster_units *units);

/* As fleet_compare_hosts(); a process has one snapshot in the cohort. */
int cluster_units__hosts(struct cluster_units *units, const struct cohort *cohort, const struct groups *groups,
			 struct host_rows *ret, struct reason *why);

#endif
