/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_TABLES_H
#define ALLOCSNAP_FLEET_ROW_TABLES_H

/* The row tables (row_tables.h) in memory: some thousand rows of one table, column by column. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "reason.h"

enum row_type {
	ROW_INT,
	ROW_REAL,
	ROW_TEXT,
};

struct row_column {
	const char *name;
	enum row_type type;
};

enum row_table_number {
	ROW_ALLOCATION,
	ROW_SAMPLE,
	ROW_LABEL,
	ROW_LOSS,
	ROW_SNAPSHOT,
	ROW_FRAME,
	ROW_TRACEBACK_FRAME,
	ROW_TRACEBACK,
	ROW_PLACE,
	ROW_DOMAIN,
	ROW_TABLE_NR,
};

#define ROW_COLUMNS_MAX 40

struct row_table {
	const char *name;
	const struct row_column *column;
	size_t column_nr;
};

const struct row_table *row_table(enum row_table_number number);

union row_value {
	int64_t number;
	double real;
	const char *text;
};

/* A column of a batch: numbers have 8 bytes each; a text is its length, as LEB128, and its bytes. */
struct row_bytes {
	uint8_t *byte;
	size_t byte_nr, byte_alloc;
};

struct row_batch {
	const struct row_table *table;
	struct row_bytes column[ROW_COLUMNS_MAX];
	size_t row_nr;
};

void row_batch_init(struct row_batch *batch, enum row_table_number number);
void row_batch_release(struct row_batch *batch);

/* Removes the rows, and keeps the memory. */
void row_batch_clear(struct row_batch *batch);

/* The bytes of all its rows. */
uint64_t row_batch_bytes(const struct row_batch *batch);

/* value: one for each column. Returns 0 or -ENOMEM. */
int row_batch_add(struct row_batch *batch, const union row_value *value);

/* Appends a LEB128 number. Returns 0 or -ENOMEM. */
int row_bytes_add_length(struct row_bytes *bytes, uint64_t length);
int row_bytes_add(struct row_bytes *bytes, const void *what, size_t len);

/* Reads a LEB128 number at *at, and moves it on. */
uint64_t row_bytes_length(const uint8_t **at);

/* Where rows go: a file of SQLite, or a server. */
struct row_sink {
	/* Returns 0, or a negative errno and a line in *why: the rows may be there, in part. */
	int (*insert)(struct row_sink *sink, const struct row_batch *batch, struct reason *why);
};

/*
 * The row tables of a fleet: one row for each (snapshot, traceback, domain), for SQL. src/fleet/sql/ has the statements
 * that make them, one file for each kind of database, and the questions, one file each. `make install` installs them.
 */

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
