/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_SCHEMA_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_SCHEMA_H

#include <stdint.h>
#include <stdio.h>

#include "fleet/cluster/cluster.h"

struct schema_options {
	const char *database;
	const char *cluster; /* its name in the servers' configuration; NULL: one server */
	uint64_t keep_days;  /* 0: for ever */
};

/* Returns 0, or -EINVAL and why the names are refused. */
int schema_options_check(const struct schema_options *options, struct reason *why);

/* The statements that make database and tables, as text. Returns NULL if there is no memory; the caller frees it. */
char *schema_text(const struct schema_options *options);

/*
 * Make them on one server. Tables that are there stay. Of a cluster, first all servers get the tables, then all get the
 * version. Return 0, or a negative errno and a line in *why.
 */
int cluster_schema_make(struct cluster *cluster, const struct schema_options *options, struct reason *why);
int cluster_schema_set_version(struct cluster *cluster, struct reason *why);

/*
 * Whether the tables are ours and of this version: 0, or a negative errno and a line in *why. To be called before
 * anything else is asked or inserted.
 */
int cluster_schema_check(struct cluster *cluster, struct reason *why);

#endif
