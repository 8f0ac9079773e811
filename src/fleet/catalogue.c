// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/row_codec.h"

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

int catalogue_connect(struct catalogue *catalogue, struct reason *why)
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
