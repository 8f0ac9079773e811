/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_MIRROR_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_MIRROR_H

/*
 * A catalogue in memory with what a question needs of a cluster, so that the embedded engine answers it as it answers
 * questions to a file: the facts of all snapshots, all names, and of the chosen snapshots the rows. If sums are enough,
 * the cluster adds up, and sends one row for each traceback and domain.
 *
 *	cluster_mirror__new(): the facts
 *	cluster_mirror__sum() or cluster_mirror__fetch(), for each cohort; or cluster_mirror__want_tracebacks()
 *	cluster_mirror__finish(): the names
 */

#include "fleet/cluster/cluster.h"
#include "fleet/selection.h"
#include "fleet/sum.h"

struct catalogue;
struct cluster_mirror;

/* Returns 0, or a negative errno and a line in *why, as the functions below do. The cluster must outlive it. */
int cluster_mirror__new(struct cluster *cluster, struct cluster_mirror **ret, struct reason *why);
void cluster_mirror__free(struct cluster_mirror *mirror); /* NULL is allowed */

/* The catalogue; it is the caller's to close. */
struct catalogue *cluster_mirror__catalogue(const struct cluster_mirror *mirror);

/* Whether the cluster's sums are those of the engine: samples need the order in which they are added. */
bool cluster_mirror_can_sum(const struct cohort *cohort);

/* Sums by origin; the caller releases them. cost has room for the origins so far. */
int cluster_mirror__sum(struct cluster_mirror *mirror, const struct cohort *cohort, struct fleet_sum *ret,
			struct reason *why);

int cluster_mirror__fetch(struct cluster_mirror *mirror, const struct cohort *cohort, struct reason *why);

/*
 * For a question that needs no rows, since it reads the snapshot files: each traceback that the cluster has gets an
 * origin. A file may have tracebacks without rows there (`fleet push --top`).
 */
void cluster_mirror__want_tracebacks(struct cluster_mirror *mirror);

/* *ret_origin_nr: the number of origins. */
int cluster_mirror__finish(struct cluster_mirror *mirror, uint32_t *ret_origin_nr, struct reason *why);

#endif
