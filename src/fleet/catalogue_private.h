/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CATALOGUE_PRIVATE_H
#define ALLOCSNAP_FLEET_CATALOGUE_PRIVATE_H

#include <sqlite3.h>
#include <sys/types.h>

#include "fleet/catalogue.h"

struct catalogue {
	char *path;
	sqlite3 *db;
	/*
	 * The file, for its lock, and as what another connection must find. POSIX locks, which are SQLite's, end
	 * where a process closes any descriptor of a file: so it is closed after the connection.
	 */
	int fd;
	dev_t device;
	ino_t inode;
	enum catalogue_access access;
};

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

/* ---- SQL: what fails leaves "PATH: …" in *why ------------------------------------------------------ */

int sql_error(const struct catalogue *catalogue, struct reason *why);
int sql_run(const struct catalogue *catalogue, const char *sql, struct reason *why);
int sql_prepare(const struct catalogue *catalogue, const char *sql, sqlite3_stmt **ret, struct reason *why);

/* 1: a row; 0: no more. */
int sql_step(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why);

/* Runs it to its end and makes it ready for the next time. */
int sql_finish(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why);

/* Any bytes, kept until the statement is finished. -E2BIG: SQLite takes no more than 1,000,000,000. */
int sql_bind_text(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const char *text,
		  struct reason *why);
int sql_bind_blob(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const void *bytes,
		  size_t len, struct reason *why);

/* "" for NULL. */
const char *sql_text(sqlite3_stmt *statement, int column);

/* The number of the first row and column; 0 where there is none. */
int sql_number(const struct catalogue *catalogue, const char *sql, int64_t *ret, struct reason *why);

/* -EBADMSG: what a catalogue of ours can't hold. */
int catalogue_damaged(const struct catalogue *catalogue, struct reason *why, const char *what);

/* ---- facts ----------------------------------------------------------------------------------------- */

/* Of facts in their order: what became of each process, into all its snapshots. 0 or -ENOMEM. */
int fleet_endings_find(struct fleet_facts *facts);

/* ---- opening --------------------------------------------------------------------------------------- */

/* Of a new one; in a transaction. */
int catalogue_make_tables(const struct catalogue *catalogue, struct reason *why);

/* 0: it is one; with a line -EBADMSG, or -ENOENT: one that nothing was committed to yet. */
#define CATALOGUE_IS_EMPTY "%s: no snapshots have been indexed yet"

int catalogue_check_version(const struct catalogue *catalogue, struct reason *why);

/* For reading; it is as it was from now on: others can write when it is closed. */
int catalogue_connect(struct catalogue *catalogue, struct reason *why);

#endif
