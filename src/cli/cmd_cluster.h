/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_CLUSTER_H
#define ALLOCSNAP_CLI_CMD_CLUSTER_H

/* The options of fleet commands that reach a ClickHouse. */

#include "cli/cmd.h"
#include "fleet/cluster/cluster.h"

/* Rows for fields of struct cluster_options: --to; what CLUSTER_ROWS() has. */
extern const struct option_row cluster_to_rows[], cluster_rows[];

/* --database, --credentials, --ca-file and --timeout, of a struct cluster_options at this offset. */
#define CLUSTER_ROWS(at) \
	{ "database", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, database), .arg = "NAME", \
	  .help = "use this database of the ClickHouse" }, \
	{ "credentials", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, credentials), .arg = "FILE", \
	  .help = "read user=NAME and password=PASSWORD, or token=TOKEN, from FILE" }, \
	{ "ca-file", 0, OPTION_STRING, (at) + offsetof(struct cluster_options, ca_file), .arg = "FILE", \
	  .help = "trust the certificates in FILE instead of the system's" }, \
	{ "timeout", 0, OPTION_DURATION, (at) + offsetof(struct cluster_options, timeout_ns), .arg = "TIME", \
	  .help = "wait TIME for each answer of the ClickHouse", .least = 1000000, .most = 86400000000000 }

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
