// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tables of a catalogue; catalogue.h says what each is for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/catalogue_private.h"

#define APPLICATION_ID 1095521601 /* "ALSA" */
#define VERSION 3

#define TEXT(name) #name " TEXT NOT NULL,"

/*
 * Files and snapshots are numbered in the order in which they were added. A blob of frames holds their ids, 8 bytes
 * each. An unsigned 64-bit number is stored as the signed number with the same bits.
 */
static const char tables[] =
	"CREATE TABLE file (number INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,"
	" mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, problem INTEGER NOT NULL,"
	" line TEXT NOT NULL) STRICT;"
	"CREATE TABLE snapshot (number INTEGER PRIMARY KEY, snapshot_id INTEGER NOT NULL UNIQUE,"
	" verify INTEGER NOT NULL, file INTEGER NOT NULL, process_id INTEGER NOT NULL,"
	" time_ns INTEGER NOT NULL, monotonic_ns INTEGER NOT NULL, recording_ns INTEGER NOT NULL,"
	" interval_ns INTEGER NOT NULL,"
#define X(name) TEXT(name)
	FLEET_TEXTS(X)
#undef X
	" pid INTEGER NOT NULL, start_ticks INTEGER NOT NULL, exec_count INTEGER NOT NULL,"
	" size INTEGER NOT NULL, count INTEGER NOT NULL, gap_size INTEGER NOT NULL,"
	" gap_count INTEGER NOT NULL, row_nr INTEGER NOT NULL,"
	" traceback_limit INTEGER NOT NULL, is_sampled INTEGER NOT NULL," /* 2: is_open, too */
	" sample_bytes_most INTEGER NOT NULL, is_part INTEGER NOT NULL) STRICT;"
	"CREATE INDEX snapshot_file ON snapshot (file);"
	"CREATE TABLE snapshot_rows (snapshot INTEGER PRIMARY KEY, rows BLOB NOT NULL) STRICT;"
	"CREATE TABLE label (snapshot INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,"
	" PRIMARY KEY (snapshot, name)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE loss (snapshot INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL,"
	" PRIMARY KEY (snapshot, name)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE origin (number INTEGER PRIMARY KEY, traceback_id INTEGER NOT NULL,"
	" domain INTEGER NOT NULL) STRICT;"
	"CREATE TABLE traceback (traceback_id INTEGER PRIMARY KEY, verify INTEGER NOT NULL,"
	" frames BLOB NOT NULL) STRICT;"
	"CREATE TABLE frame (frame_id INTEGER PRIMARY KEY, verify INTEGER NOT NULL,"
	" filename TEXT NOT NULL, lineno INTEGER NOT NULL, function TEXT NOT NULL,"
	" first_line INTEGER NOT NULL, object TEXT NOT NULL, build_id TEXT NOT NULL,"
	" offset INTEGER NOT NULL, flags INTEGER NOT NULL) STRICT;"
	"CREATE TABLE domain (number INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;";

int catalogue_make_tables(const struct catalogue *catalogue, struct reason *why)
{
	char mark[96];

	snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
		 APPLICATION_ID, VERSION);
	return sql_run(catalogue, tables, why) ?: sql_run(catalogue, mark, why);
}

/* ---- is it our catalogue ------------------------------------------------------------------------------- */

static bool is_statement(const char *sql)
{
	size_t len = strlen(sql);

	for (const char *at = strstr(tables, sql); at && len; at = strstr(at + 1, sql))
		if ((at == tables || at[-1] == ';') && at[len] == ';')
			return true;
	return false;
}

static size_t count_statements(void)
{
	size_t nr = 0;

	for (const char *at = strchr(tables, ';'); at; at = strchr(at + 1, ';'))
		nr++;
	return nr;
}

/*
 * Views, triggers, virtual tables and computed columns are programs: any query runs them, and they may never end. So
 * a catalogue must have exactly the statements of catalogue_make_tables(), letter by letter.
 */
static int check_schema(const struct catalogue *catalogue, struct reason *why)
{
	sqlite3_stmt *row;
	size_t nr = 0;
	bool is_ours = true;
	int more = 1, err = sql_prepare(catalogue, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL", &row, why);

	if (err)
		return err;
	while (is_ours && (more = sql_step(catalogue, row, why)) > 0) {
		is_ours = is_statement(sql_text(row, 0));
		nr++;
	}
	sqlite3_finalize(row);
	if (more < 0)
		return more;
	return is_ours && nr == count_statements() ? 0 :
	       catalogue_report_damage(catalogue, why, "its tables are others than a catalogue's");
}

int catalogue_check_version(const struct catalogue *catalogue, struct reason *why)
{
	int64_t application, version, pages;
	int err = sql_number(catalogue, "PRAGMA application_id", &application, why) ?:
		  sql_number(catalogue, "PRAGMA user_version", &version, why) ?:
		  sql_number(catalogue, "PRAGMA page_count", &pages, why);

	if (err)
		return err;
	if (!pages)
		return reason_set(why, -ENOENT, CATALOGUE_IS_EMPTY, catalogue->path);
	if (application != APPLICATION_ID)
		return reason_set(why, -EBADMSG, "%s: not a catalogue", catalogue->path);
	if (version != VERSION)
		return reason_set(why, -EBADMSG, "%s: a catalogue of version %" PRId64
				  ", this one reads version %d", catalogue->path, version, VERSION);
	return check_schema(catalogue, why);
}
