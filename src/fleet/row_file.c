// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/row_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "fleet/row_tables.h"

struct row_file {
	struct row_sink sink;
	const char *path;
	char *part; /* its name while it is written; NULL: it has its own name */
	sqlite3 *db;
	sqlite3_stmt *insert[ROW_TABLE_NR];
};

static int row_file_error(const struct row_file *file, struct reason *why)
{
	int code = sqlite3_errcode(file->db);
	int err = code == SQLITE_NOMEM ? -ENOMEM : code == SQLITE_FULL ? -ENOSPC : -EIO;

	return reason_set(why, err, "%s: %s", file->path, sqlite3_errmsg(file->db));
}

/* ---- rows ----------------------------------------------------------------------------------------------------- */

static int prepare_insert(struct row_file *file, enum row_table_number number, struct reason *why)
{
	const struct row_table *table = row_table(number);
	char sql[1024];
	int len = snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (?", table->name);

	for (size_t i = 1; i < table->column_nr; i++)
		len += snprintf(sql + len, sizeof(sql) - len, ", ?");
	snprintf(sql + len, sizeof(sql) - len, ")");
	return sqlite3_prepare_v2(file->db, sql, -1, &file->insert[number], NULL) == SQLITE_OK ? 0 :
	       row_file_error(file, why);
}

/* Binds the value at *at, and moves *at to the next one. */
static void bind_value(sqlite3_stmt *insert, int parameter, enum row_type type, const uint8_t **at)
{
	union row_value value;
	uint64_t len;

	if (type == ROW_TEXT) {
		len = row_bytes_length(at);
		sqlite3_bind_text64(insert, parameter, (const char *)*at, len, SQLITE_STATIC, SQLITE_UTF8);
		*at += len;
		return;
	}
	memcpy(&value, *at, sizeof(value.number));
	*at += sizeof(value.number);
	if (type == ROW_REAL)
		sqlite3_bind_double(insert, parameter, value.real);
	else
		sqlite3_bind_int64(insert, parameter, value.number);
}

static int insert_into_file(struct row_sink *sink, const struct row_batch *batch, struct reason *why)
{
	struct row_file *file = (struct row_file *)sink;
	sqlite3_stmt *insert = file->insert[batch->table - row_table(0)];
	const uint8_t *at[ROW_COLUMNS_MAX];

	for (size_t i = 0; i < batch->table->column_nr; i++)
		at[i] = batch->column[i].byte;
	for (size_t row = 0; row < batch->row_nr; row++) {
		for (size_t i = 0; i < batch->table->column_nr; i++)
			bind_value(insert, i + 1, batch->table->column[i].type, &at[i]);
		if (sqlite3_step(insert) != SQLITE_DONE)
			return row_file_error(file, why);
		sqlite3_reset(insert);
	}
	return 0;
}

/* ---- the file ------------------------------------------------------------------------------------------------- */

static int run_sql(struct row_file *file, const char *sql, struct reason *why)
{
	return sqlite3_exec(file->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : row_file_error(file, why);
}

static int make_row_file(struct row_file *file, struct reason *why)
{
	char *name = NULL;
	int fd, code, err;

	if (asprintf(&file->part, "%s.XXXXXX", file->path) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	fd = mkostemp(file->part, O_CLOEXEC);
	if (fd < 0) {
		err = reason_set(why, -errno, "%s: %s", file->path, strerror(errno));
		free(file->part);
		file->part = NULL;
		return err;
	}
	close(fd);
	if (asprintf(&name, "%s%s", *file->part == '/' ? "" : "./", file->part) < 0)
		return reason_set(why, -ENOMEM, "out of memory");
	code = sqlite3_open_v2(name, &file->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	free(name);
	if (code != SQLITE_OK)
		return row_file_error(file, why);
	err = run_sql(file, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN",
		      why) ?:
	      run_sql(file, row_sql_text(ROW_SQL_sqlite), why);
	for (enum row_table_number i = 0; i < ROW_TABLE_NR && !err; i++)
		err = prepare_insert(file, i, why);
	return err;
}

int row_file__create(const char *path, struct row_file **ret, struct reason *why)
{
	struct row_file *file = calloc(1, sizeof(*file));
	int err;

	if (!file)
		return reason_set(why, -ENOMEM, "out of memory");
	file->sink.insert = insert_into_file;
	file->path = path;
	err = make_row_file(file, why);
	if (err)
		row_file__free(file);
	else
		*ret = file;
	return err;
}

struct row_sink *row_file__sink(struct row_file *file)
{
	return &file->sink;
}

static void close_row_file(struct row_file *file)
{
	for (enum row_table_number i = 0; i < ROW_TABLE_NR; i++) {
		sqlite3_finalize(file->insert[i]);
		file->insert[i] = NULL;
	}
	sqlite3_close(file->db);
	file->db = NULL;
}

static int sync_row_file(const struct row_file *file)
{
	int fd = open(file->part, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = fsync(fd) ? -errno : 0;
	close(fd);
	return err;
}

int row_file__finish(struct row_file *file, struct reason *why)
{
	int err = run_sql(file, "COMMIT", why);

	if (err)
		return err;
	close_row_file(file);
	err = sync_row_file(file);
	if (!err && rename(file->part, file->path))
		err = -errno;
	if (err)
		return reason_set(why, err, "%s: %s", file->path, strerror(-err));
	free(file->part);
	file->part = NULL;
	return 0;
}

void row_file__free(struct row_file *file)
{
	if (!file)
		return;
	close_row_file(file);
	if (file->part)
		unlink(file->part);
	free(file->part);
	free(file);
}
