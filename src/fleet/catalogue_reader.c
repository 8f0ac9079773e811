// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/rows.h"

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
		err = catalogue_damaged(&reader->catalogue, why, "a snapshot without rows");
	sqlite3_reset(reader->select);
	return err;
}
