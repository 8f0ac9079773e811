// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"

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

int sql_error(const struct catalogue *catalogue, struct reason *why)
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
