// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/forget.h"

#include "base/array.h"
#include "fleet/catalogue_private.h"

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
