/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_SCHEMA_H
#define ALLOCSNAP_FLEET_ROW_SCHEMA_H

/*
 * The row tables of a fleet: one row for each (snapshot, traceback, domain), for SQL. src/fleet/sql/ has the statements
 * that make them, one file for each kind of database, and the questions, one file each. `make install` installs them.
 */

#define ROW_SCHEMA_VERSION 2

const char *row_schema_sqlite(void);

/* With places {local}, {ttl}, {cluster} and {database}; the second one after the first, for many servers. */
const char *row_schema_clickhouse(void);
const char *row_schema_clickhouse_cluster(void);

/* origins.sql */
const char *row_question_sums(void);

#endif
