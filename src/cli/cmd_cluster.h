/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_CLUSTER_H
#define ALLOCSNAP_CLI_CMD_CLUSTER_H

/* The options of fleet commands that reach a ClickHouse. */

#include "cli/cmd.h"
#include "cluster/cluster.h"

/* Rows for fields of struct cluster_options: --to; --database, --credentials, --ca-file and --timeout. */
extern const struct option_row cluster_to_rows[], cluster_rows[];

#define CLUSTER_DEFAULTS .database = CLUSTER_DATABASE, .timeout_ns = CLUSTER_TIMEOUT_NS

#define CREDENTIALS_DETAIL \
	"Credentials come from a file that other users cannot read, or from ALLOCSNAP_CLUSTER_USER and " \
	"ALLOCSNAP_CLUSTER_PASSWORD, or ALLOCSNAP_CLUSTER_TOKEN, in the environment."

/*
 * Opens a connection for a command, after a look at its tables if has_tables. Returns an exit status; failures have been
 * reported.
 */
int cluster_begin(const struct command *command, const struct cluster_options *options, bool has_tables,
		  struct cluster **ret);

#endif
