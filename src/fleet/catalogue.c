// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/row_codec.h"
#include "fleet/selection.h"

/* ---- SQL ------------------------------------------------------------------------------------------------------- */

/* A row may name an extended code, or a plain one, which stands for all its extended codes. */
static const struct {
	int code, err;
	const char *text; /* NULL: SQLite's own message */
} errors[] = {
	{ SQLITE_NOMEM, -ENOMEM, "out of memory" },
	{ SQLITE_NOTADB, -EBADMSG, "not a catalogue" },
	{ SQLITE_CORRUPT, -EBADMSG, "the catalogue is damaged" },
	{ SQLITE_CONSTRAINT_PRIMARYKEY, -EBADMSG, "the catalogue is damaged: it has something twice" },
	{ SQLITE_CONSTRAINT_UNIQUE, -EBADMSG, "the catalogue is damaged: it has something twice" },
	{ SQLITE_CONSTRAINT, -EBADMSG, NULL },
	{ SQLITE_TOOBIG, -E2BIG, "more bytes than it can have in one place" },
	{ SQLITE_FULL, -ENOSPC, "no space left on the device" },
	{ SQLITE_BUSY, -EBUSY, "the catalogue is in use" },
	{ SQLITE_CANTOPEN, -EACCES, NULL },
	{ SQLITE_PERM, -EACCES, NULL },
	{ SQLITE_READONLY, -EROFS, NULL },
	{ SQLITE_IOERR, -EIO, NULL },
};

static int sql_error(const struct catalogue *catalogue, struct reason *why)
{
	int extended = sqlite3_extended_errcode(catalogue->db);
	const char *text = sqlite3_errmsg(catalogue->db);

	if (extended == SQLITE_READONLY_ROLLBACK || extended == SQLITE_READONLY_CANTINIT)
		return reason_set(why, -EROFS, "%s: its last writer was killed: run the index again as a user "
				  "who may write it", catalogue->path);
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].code == extended || errors[i].code == (extended & 0xff))
			return reason_set(why, errors[i].err, "%s: %s", catalogue->path,
					  errors[i].text ?: text);
	return reason_set(why, -EIO, "%s: %s", catalogue->path, text);
}

int catalogue_report_damage(const struct catalogue *catalogue, struct reason *why, const char *what)
{
	return reason_set(why, -EBADMSG, "%s: the catalogue is damaged: %s", catalogue->path, what);
}

int sql_run(const struct catalogue *catalogue, const char *sql, struct reason *why)
{
	return sqlite3_exec(catalogue->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 :
	       sql_error(catalogue, why);
}

int sql_prepare(const struct catalogue *catalogue, const char *sql, sqlite3_stmt **ret, struct reason *why)
{
	return sqlite3_prepare_v3(catalogue->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) ==
	       SQLITE_OK ? 0 : sql_error(catalogue, why);
}

int sql_step(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why)
{
	int code = sqlite3_step(statement);

	if (code == SQLITE_ROW)
		return 1;
	return code == SQLITE_DONE ? 0 : sql_error(catalogue, why);
}

int sql_finish(const struct catalogue *catalogue, sqlite3_stmt *statement, struct reason *why)
{
	int err = sql_step(catalogue, statement, why);

	sqlite3_reset(statement);
	return err < 0 ? err : 0;
}

int sql_bind_text(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const char *text,
		  struct reason *why)
{
	return sqlite3_bind_text64(statement, at, text, strlen(text), SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK ?
	       0 : sql_error(catalogue, why);
}

int sql_bind_blob(const struct catalogue *catalogue, sqlite3_stmt *statement, int at, const void *bytes,
		  size_t len, struct reason *why)
{
	return sqlite3_bind_blob64(statement, at, bytes, len, SQLITE_STATIC) == SQLITE_OK ? 0 :
	       sql_error(catalogue, why);
}

const char *sql_text(sqlite3_stmt *statement, int column)
{
	return (const char *)sqlite3_column_text(statement, column) ?: "";
}

int sql_number(const struct catalogue *catalogue, const char *sql, int64_t *ret, struct reason *why)
{
	sqlite3_stmt *statement;
	int err = sql_prepare(catalogue, sql, &statement, why);

	if (err)
		return err;
	err = sql_step(catalogue, statement, why);
	if (err >= 0)
		*ret = err ? sqlite3_column_int64(statement, 0) : 0;
	sqlite3_finalize(statement);
	return err < 0 ? err : 0;
}

#define CATALOGUE_IS_EMPTY "%s: no snapshots have been indexed yet"

/* ---- tables; catalogue.h says what each is for ---------------------------------------------------------------- */

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

/* Fills a new catalogue; call it in a transaction. */
static int catalogue_make_tables(const struct catalogue *catalogue, struct reason *why)
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

/* Returns 0 for a catalogue. Errors leave a line: -EBADMSG, or -ENOENT if nothing was committed to it yet. */
static int catalogue_check_version(const struct catalogue *catalogue, struct reason *why)
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

/* ---- removing snapshots --------------------------------------------------------------------------------------- */

/* The snapshot's own row is last: the others are found by its number. */
static const char *const deletes[] = {
	"DELETE FROM snapshot_rows WHERE snapshot = (SELECT number FROM snapshot WHERE snapshot_id = ?)",
	"DELETE FROM label WHERE snapshot = (SELECT number FROM snapshot WHERE snapshot_id = ?)",
	"DELETE FROM loss WHERE snapshot = (SELECT number FROM snapshot WHERE snapshot_id = ?)",
	"DELETE FROM snapshot WHERE snapshot_id = ?",
};

static int forget_from_table(const struct catalogue *catalogue, const char *sql, const struct cohort *cohort,
			     struct reason *why)
{
	sqlite3_stmt *delete = NULL;
	int err = sql_prepare(catalogue, sql, &delete, why);

	for (size_t i = 0; i < cohort->snapshot_nr && !err; i++) {
		sqlite3_bind_int64(delete, 1, cohort->snapshot[i]->snapshot_id);
		err = sql_finish(catalogue, delete, why);
	}
	sqlite3_finalize(delete);
	return err;
}

int catalogue_forget(struct catalogue *catalogue, const struct cohort *cohort, struct reason *why)
{
	int err = sql_run(catalogue, "BEGIN IMMEDIATE", why);

	if (err)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(deletes) && !err; i++)
		err = forget_from_table(catalogue, deletes[i], cohort, why);
	err = err ?: sql_run(catalogue, "COMMIT", why);
	if (err)
		sql_run(catalogue, "ROLLBACK", NULL);
	return err;
}

/* ---- opening and closing --------------------------------------------------------------------------------------- */

/*
 * Opens and closes a catalogue. The journal is a rollback journal: a reader writes nothing, neither the file nor its
 * directory, and a catalogue that no process is writing is one file. A reader holds one transaction from opening to
 * closing. A commit waits for the end of that transaction.
 */

#define WAIT_MS (10 * 60 * 1000) /* how long to wait for other readers and writers */

const char *catalogue__path(const struct catalogue *catalogue)
{
	return catalogue->path;
}

void catalogue__close(struct catalogue *catalogue)
{
	if (!catalogue)
		return;
	sqlite3_close(catalogue->db);
	if (catalogue->fd >= 0)
		close(catalogue->fd);
	free(catalogue->path);
	free(catalogue->memory);
	free(catalogue);
}

static int catalogue_report_errno(const struct catalogue *catalogue, int err, struct reason *why)
{
	return reason_set(why, err, "%s: %s", catalogue->path, strerror(-err));
}

/* Whether the path still names the file that is open. */
static bool catalogue_is_same_file(const struct catalogue *catalogue)
{
	struct stat st;

	if (catalogue->memory)
		return true;
	return !stat(catalogue->path, &st) && st.st_dev == catalogue->device &&
	       st.st_ino == catalogue->inode;
}

static int catalogue_open_file(struct catalogue *catalogue, struct reason *why)
{
	bool writes = catalogue->access == CATALOGUE_WRITE;
	struct stat st;

	catalogue->fd = open(catalogue->path, (writes ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC |
			     O_NONBLOCK | O_NOCTTY, 0600);
	if (catalogue->fd < 0 || fstat(catalogue->fd, &st))
		return catalogue_report_errno(catalogue, -errno, why);
	if (!S_ISREG(st.st_mode))
		return reason_set(why, -EBADMSG, "%s: not a regular file", catalogue->path);
	/* An empty file is a catalogue that is being made, or one whose first indexing was killed. */
	if (!writes && !st.st_size)
		return reason_set(why, -ENOENT, CATALOGUE_IS_EMPTY, catalogue->path);
	catalogue->device = st.st_dev;
	catalogue->inode = st.st_ino;
	return 0;
}

/* The callback for a wait: another process writes the catalogue. waits may be NULL. */
struct waiting {
	void (*waits)(void *what, const char *path);
	void *what;
};

/* Waits until no other process writes the catalogue. */
static int lock_file(const struct catalogue *catalogue, const struct waiting *waiting, struct reason *why)
{
	int how = LOCK_EX | LOCK_NB;

	while (flock(catalogue->fd, how)) {
		if (errno == EWOULDBLOCK && how != LOCK_EX) {
			how = LOCK_EX;
			if (waiting->waits)
				waiting->waits(waiting->what, catalogue->path);
		} else if (errno != EINTR) {
			return catalogue_report_errno(catalogue, -errno, why);
		}
	}
	if (!catalogue_is_same_file(catalogue))
		return reason_set(why, -ESTALE, "%s: it was replaced by another file", catalogue->path);
	return 0;
}

/* These settings protect our SQL statements from a hostile file. */
static const char settings[] = "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
			       "PRAGMA cache_size = -65536; PRAGMA temp_store = MEMORY;";

/* Puts "./" before a relative path: SQLite would take ":memory:" for no file, and "file:x" for a file called x. */
static char *sqlite_file_name(const char *path)
{
	char *name;

	return asprintf(&name, "%s%s", *path == '/' ? "" : "./", path) < 0 ? NULL : name;
}

/*
 * With the right to write, SQLite rolls back what a killed writer has left half done. Without that right, SQLite
 * returns an error that asks for a writer.
 */
static int connect_db(struct catalogue *catalogue, struct reason *why)
{
	char *path = catalogue->memory ? strdup(catalogue->memory) : sqlite_file_name(catalogue->path);
	int code = !path ? SQLITE_NOMEM :
		   sqlite3_open_v2(path, &catalogue->db,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE |
				   (catalogue->memory ? SQLITE_OPEN_URI | SQLITE_OPEN_CREATE : 0), NULL);

	free(path);
	if (!catalogue->db)
		return catalogue_report_errno(catalogue, -ENOMEM, why);
	if (code != SQLITE_OK)
		return sql_error(catalogue, why);
	sqlite3_busy_timeout(catalogue->db, WAIT_MS);
	sqlite3_db_config(catalogue->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	return sql_run(catalogue, settings, why);
}

/* Connects a reader, which sees the catalogue as it is now. Others can write only after it is closed. */
static int catalogue_connect(struct catalogue *catalogue, struct reason *why)
{
	int err = connect_db(catalogue, why) ?: sql_run(catalogue, "PRAGMA query_only = ON; BEGIN", why) ?:
		  catalogue_check_version(catalogue, why);

	if (!err && !catalogue_is_same_file(catalogue))
		err = reason_set(why, -ESTALE, "%s: it was replaced by another file", catalogue->path);
	return err;
}

/*
 * Changes stay in memory until the commit: until then they block no reader, and a writer that is killed leaves
 * nothing.
 */
static const char writing[] = "PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;"
			      "PRAGMA cache_spill = OFF; PRAGMA foreign_keys = OFF;";

static int make_if_empty(const struct catalogue *catalogue, struct reason *why)
{
	int64_t pages;
	int err = sql_number(catalogue, "PRAGMA page_count", &pages, why);

	if (err || pages)
		return err;
	return sql_run(catalogue, "BEGIN IMMEDIATE", why) ?: catalogue_make_tables(catalogue, why) ?:
	       sql_run(catalogue, "COMMIT", why);
}

static int open_for(struct catalogue *catalogue, const struct waiting *waiting, struct reason *why)
{
	int err = catalogue_open_file(catalogue, why);

	if (err)
		return err;
	if (catalogue->access == CATALOGUE_READ)
		return catalogue_connect(catalogue, why);
	return lock_file(catalogue, waiting, why) ?: connect_db(catalogue, why) ?: sql_run(catalogue, writing, why) ?:
	       make_if_empty(catalogue, why) ?: catalogue_check_version(catalogue, why);
}

/* Without this, SQLite counts every allocation under a lock, and reading threads wait for each other. */
static void configure_sqlite(void)
{
	sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}

static pthread_once_t sqlite_configured = PTHREAD_ONCE_INIT;

static int open_catalogue_path(const char *path, enum catalogue_access access, const struct waiting *waiting,
			       struct catalogue **ret, struct reason *why)
{
	struct catalogue *catalogue = calloc(1, sizeof(*catalogue));
	int err;

	if (!catalogue)
		return reason_set(why, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
	pthread_once(&sqlite_configured, configure_sqlite);
	catalogue->fd = -1;
	catalogue->access = access;
	catalogue->path = strdup(path);
	err = catalogue->path ? open_for(catalogue, waiting, why) :
				reason_set(why, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
	if (err)
		catalogue__close(catalogue);
	else
		*ret = catalogue;
	return err;
}

int catalogue__open(const char *path, enum catalogue_access access, struct catalogue **ret,
		    struct reason *why)
{
	return open_catalogue_path(path, access, &(struct waiting){}, ret, why);
}

int catalogue__open_to_write(const char *path, void (*waits)(void *what, const char *path), void *what,
			    struct catalogue **ret, struct reason *why)
{
	const struct waiting waiting = { waits, what };

	return open_catalogue_path(path, CATALOGUE_WRITE, &waiting, ret, why);
}

/* ---- in memory ------------------------------------------------------------------------------------------------ */

/* Connections of one process that use the same name have the same database. */
static int name_memory(struct catalogue *catalogue, const char *name)
{
	static atomic_uint nr;

	catalogue->path = strdup(name);
	if (asprintf(&catalogue->memory, "file:/allocsnap-%u?vfs=memdb", atomic_fetch_add(&nr, 1)) < 0)
		catalogue->memory = NULL;
	return catalogue->path && catalogue->memory ? 0 : -ENOMEM;
}

int catalogue__make_in_memory(const char *name, struct catalogue **ret, struct reason *why)
{
	struct catalogue *catalogue = calloc(1, sizeof(*catalogue));
	int err;

	pthread_once(&sqlite_configured, configure_sqlite);
	if (!catalogue)
		return reason_set(why, -ENOMEM, "%s: %s", name, strerror(ENOMEM));
	catalogue->fd = -1;
	catalogue->access = CATALOGUE_WRITE;
	err = name_memory(catalogue, name) ? reason_set(why, -ENOMEM, "%s: %s", name, strerror(ENOMEM)) :
	      connect_db(catalogue, why) ?: sql_run(catalogue, "BEGIN IMMEDIATE", why) ?:
					    catalogue_make_tables(catalogue, why);
	if (err)
		catalogue__close(catalogue);
	else
		*ret = catalogue;
	return err;
}

int catalogue__seal(struct catalogue *catalogue, struct reason *why)
{
	return sql_run(catalogue, "COMMIT", why);
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

/* A reader has its own connection. */
struct rows_reader {
	struct catalogue catalogue;
	sqlite3_stmt *select;
};

int rows_reader__new(const struct catalogue *catalogue, struct rows_reader **ret, struct reason *why)
{
	/* Each page is read once. A larger cache would only take new memory with every read. */
	static const char small_cache[] = "PRAGMA cache_size = -1024";
	static const char select[] = "SELECT rows FROM snapshot_rows WHERE snapshot ="
				     " (SELECT number FROM snapshot WHERE snapshot_id = ?1)";
	struct rows_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return reason_set(why, -ENOMEM, "%s: %s", catalogue->path, strerror(ENOMEM));
	reader->catalogue = *catalogue;
	reader->catalogue.db = NULL;
	reader->catalogue.fd = -1;
	reader->catalogue.access = CATALOGUE_READ;
	err = catalogue_connect(&reader->catalogue, why) ?:
	      sql_run(&reader->catalogue, small_cache, why) ?:
	      sql_prepare(&reader->catalogue, select, &reader->select, why);
	if (err)
		rows_reader__free(reader);
	else
		*ret = reader;
	return err;
}

void rows_reader__free(struct rows_reader *reader)
{
	if (!reader)
		return;
	sqlite3_finalize(reader->select);
	sqlite3_close(reader->catalogue.db);
	free(reader);
}

static int decode_rows_blob(struct rows_reader *reader, uint32_t origin_nr, struct fleet_rows *rows,
			    struct reason *why)
{
	const void *bytes = sqlite3_column_blob(reader->select, 0);
	struct reason line;
	int err = fleet_rows_decode(bytes, sqlite3_column_bytes(reader->select, 0), origin_nr, rows, &line);

	return err ? reason_set(why, err, "%s: %s", reader->catalogue.path, line.text) : 0;
}

int rows_reader__read(struct rows_reader *reader, int64_t snapshot_id, uint32_t origin_nr,
		      struct fleet_rows *rows, struct reason *why)
{
	int err;

	sqlite3_bind_int64(reader->select, 1, snapshot_id);
	err = sql_step(&reader->catalogue, reader->select, why);
	if (err > 0)
		err = decode_rows_blob(reader, origin_nr, rows, why);
	else if (!err)
		err = catalogue_report_damage(&reader->catalogue, why, "a snapshot without rows");
	sqlite3_reset(reader->select);
	return err;
}
