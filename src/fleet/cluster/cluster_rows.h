/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_ROWS_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_ROWS_H

/* The rows of a cohort's snapshots, which are read one by one in its order: many snapshots in one question. */

#include "fleet/cluster/cluster_units.h"
#include "fleet/row_codec.h"
struct cluster_rows;

int cluster_rows__new(struct cluster_units *units, const struct cohort *cohort, struct cluster_rows **ret,
		      struct reason *why);
void cluster_rows__free(struct cluster_rows *rows); /* NULL is allowed */
int cluster_rows__read(struct cluster_rows *rows, const struct fleet_snapshot *snapshot, struct fleet_rows *ret,
		       struct reason *why);

#endif
