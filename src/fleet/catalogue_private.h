/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CATALOGUE_PRIVATE_H
#define ALLOCSNAP_FLEET_CATALOGUE_PRIVATE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "fleet/catalogue.h"

struct catalogue {
	char *path;
	char *memory; /* SQLite's name of a catalogue in memory; NULL: it is the file */
	sqlite3 *db;
	/*
	 * The catalogue's file, for its lock, and for comparison with the file of another connection. SQLite uses
	 * POSIX locks, which a process loses when it closes any descriptor of the file. So this one is closed after
	 * the connection.
	 */
	int fd;
	dev_t device;
	ino_t inode;
	enum catalogue_access access;
};

/* The numbers of a snapshot, as columns and as members of struct fleet_snapshot: those that have the same name. */
#define FLEET_NUMBERS(X) \
	X(snapshot_id) X(process_id) X(time_ns) X(monotonic_ns) X(recording_ns) X(interval_ns) X(pid) X(start_ticks) \
	X(exec_count) X(size) X(count) X(row_nr) X(traceback_limit) X(sample_bytes_most) X(is_part)

/* The texts of a snapshot, as columns and as members of struct fleet_snapshot. */
#define FLEET_TEXTS(X) \
	X(host) X(comm) X(exe) X(exe_build_id) X(cgroup) X(container) X(boot_id) X(kernel) X(version) \
	X(trigger) X(ending)

enum fleet_text {
#define X(name) FLEET_TEXT_##name,
	FLEET_TEXTS(X)
#undef X
	FLEET_TEXT_NR,
};

/* ---- SQL: an error leaves "PATH: …" in *why ------------------------------------------------------ */

int sql_run(const struct catalogue *catalogue, const char *sql, struct reason *why);
int sql_prepare(const struct catalogue *catalogue, const char *sql, sqlite3_stmt **ret, struct reason *why);

/* Returns 1 for a row, and 0 after the last one. */
int sql_step(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why);

/* Runs the statement to its end and resets it for the next use. */
int sql_finish(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why);

/* The bytes may be any, and must stay until the statement is finished. -E2BIG: SQLite takes at most 1,000,000,000. */
int sql_bind_text(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const char *text,
		  struct reason *why);
int sql_bind_blob(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const void *bytes,
		  size_t len, struct reason *why);

/* Returns "" for NULL. */
const char *sql_text(sqlite3_stmt *statement, int column);

/* Reads the number in the first row and column; 0 if there is no row. */
int sql_number(const struct catalogue *catalogue, const char *sql, int64_t *ret, struct reason *why);

/* Returns -EBADMSG: the catalogue holds something that we never write. */
int catalogue_report_damage(const struct catalogue *catalogue, struct reason *why, const char *what);

/* ---- facts ----------------------------------------------------------------------------------------- */

/*
 * Facts of any source: first the snapshots, by ascending numbers, with all texts; then their labels and losses, ordered by
 * number and name. Endings, except own_ending, are as given. 0 or -ENOMEM; -EBADMSG: there is no such snapshot.
 */
struct facts_builder *facts_builder__new(void);
void facts_builder__free(struct facts_builder *builder); /* NULL is allowed */
int facts_builder__snapshot(struct facts_builder *builder, int64_t number, const struct fleet_snapshot *snapshot);
int facts_builder__label(struct facts_builder *builder, int64_t number, const char *name, const char *value);
int facts_builder__loss(struct facts_builder *builder, int64_t number, const char *name, uint64_t value);
int facts_builder__finish(struct facts_builder *builder, struct fleet_facts *ret);

#endif
