/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_SCHEMA_H
#define ALLOCSNAP_FLEET_ROW_SCHEMA_H

/*
 * The row tables of a fleet: one row for each (snapshot, traceback, domain), for SQL. src/fleet/sql/ has the statements
 * that make them, one file for each kind of database, and the questions, one file each. `make install` installs them.
 */

#include <stddef.h>
#include <stdio.h>

#define ROW_SCHEMA_VERSION 3

/* The files that commands use; X(part, file). */
#define ROW_SQL(X) \
	X(sqlite, "sqlite") X(clickhouse, "clickhouse") X(clickhouse_cluster, "clickhouse-cluster") \
	X(latest, "latest") X(all_times, "all-times") X(boots, "boots") X(fates, "fates") \
	X(choice, "choice") X(origins, "origins") X(spreads, "spreads") X(units, "units") X(own_frames, "own-frames") \
	X(lendable, "lendable") X(chains, "chains") X(host_sums, "host-sums") X(hosts, "hosts")

enum row_sql {
#define X(part, file) ROW_SQL_##part,
	ROW_SQL(X)
#undef X
	ROW_SQL_NR,
};

/* The value stands in the places {name} of a file. */
struct row_place {
	const char *name, *value;
};

/* The text as it is; and with places filled, which the caller frees (NULL: no memory), without comments. */
const char *row_sql_text(enum row_sql part);
char *row_sql_fill(enum row_sql part, const struct row_place *place, size_t place_nr);

#define ROW_PLACES(...) (const struct row_place[]){ __VA_ARGS__ }, \
	sizeof((const struct row_place[]){ __VA_ARGS__ }) / sizeof(struct row_place)

#endif
