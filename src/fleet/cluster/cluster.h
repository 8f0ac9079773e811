/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CLUSTER_CLUSTER_H
#define ALLOCSNAP_FLEET_CLUSTER_CLUSTER_H

/*
 * A ClickHouse over HTTP: one server, or one of a cluster, which asks the others. An answer is whole or an error: the
 * server ends a query before it answers, and a shard that does not answer is an error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/row_tables.h"
#include "reason.h"

/* Zero is the default. */
struct cluster_options {
	const char *url; /* http://HOST:8123 */
	const char *database;
	const char *credentials, *ca_file; /* push/http_client.h */
	uint64_t timeout_ns;
};

#define CLUSTER_DATABASE "allocsnap"
#define CLUSTER_TIMEOUT_NS 300000000000

struct cluster;

/* Returns 0, or -EINVAL and why the options are refused, or another negative errno: they cannot be checked. */
int cluster_options_check(const struct cluster_options *options, struct reason *why);

/* Asks the server nothing yet. Options must outlive it. Returns 0, or a negative errno and a line in *why. */
int cluster__new(const struct cluster_options *options, struct cluster **ret, struct reason *why);
void cluster__free(struct cluster *cluster); /* NULL is allowed */

const struct cluster_options *cluster__options(const struct cluster *cluster);

/* For the next requests. */
void cluster__set_timeout(struct cluster *cluster, uint64_t timeout_ns);

/*
 * Errors of the functions below leave a line with the URL in *why. -ENOENT: the server has no such database or table;
 * -EACCES: it refuses the user; -EIO: anything else.
 */

/* Runs a statement without an answer. is_in_database: false for what makes the database. */
int cluster__run(struct cluster *cluster, const char *sql, bool is_in_database, struct reason *why);

/* Numbers that a query can use as a table, row by row. */
struct cluster_table {
	const char *name; /* NULL: "chosen" */
	const char *columns; /* "chosen_id Int64, process_nr Int64"; NULL: "chosen_id Int64" */
	const int64_t *number;
	size_t nr; /* of all columns */
};

/*
 * Runs a query. The text lacks FORMAT. row() gets each row; its texts last until it returns.
 * Texts end at a NUL. With tables, the query is in the URL: 16 KB at most.
 */
struct cluster_query {
	const char *sql;
	bool is_outside; /* the database may not be there yet */
	const struct cluster_table *table;
	size_t table_nr;
	const char *types; /* a letter for each column: i (integer), r (real) or t (text) */
	int (*row)(void *what, const union row_value *value);
	void *what;
};

int cluster__ask(struct cluster *cluster, const struct cluster_query *query, struct reason *why);

/* Adds the number that a query returns to *number. numbers: a table that it uses, or NULL. */
int cluster__ask_number(struct cluster *cluster, const char *sql, const struct cluster_table *numbers, int64_t *number,
			struct reason *why);

#endif
