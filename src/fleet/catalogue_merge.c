// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/catalogue_merge.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/index_private.h"
#include "fleet/row_codec.h"

struct merged_source {
	struct catalogue *catalogue;
	struct rows_reader *reader;
	uint32_t *origin; /* by the source's number: the merged number */
	size_t origin_nr, origin_alloc;
	struct known domains; /* by the source's number + 1: the merged number */
};

/* Where a snapshot is from. */
struct merged_snapshot {
	uint32_t source;
	bool is_read;
};

struct catalogue_merge {
	struct catalogue *catalogue;
	struct merged_source *source;
	size_t source_nr;
	struct merged_snapshot *snapshot; /* by the merged number less 1 */
	size_t snapshot_nr, snapshot_alloc;
	struct known snapshots; /* by id: their places in `snapshot` */
	struct index_writer *writer; /* until all facts are there */
};

/* ---- rows of tables ------------------------------------------------------------------------------------------- */

/* A row of a source, and the statement that adds something to the merged catalogue. */
struct merging {
	struct catalogue_merge *merge;
	struct merged_source *source;
	sqlite3_stmt *row, *insert;
	struct reason *why;
};

static int run_insert(const struct merging *m)
{
	return sql_finish(m->merge->catalogue, m->insert, m->why);
}

/* The row's columns from `first` on, as the parameters from `at` on. */
static void bind_columns(const struct merging *m, int first, int at)
{
	for (int i = first; i < sqlite3_column_count(m->row); i++)
		sqlite3_bind_value(m->insert, at + i - first, sqlite3_column_value(m->row, i));
}

static int copy_row(struct merging *m)
{
	bind_columns(m, 0, 1);
	return run_insert(m);
}

static int merge_domain(struct merging *m)
{
	int64_t wanted = sqlite3_column_int64(m->row, 0);
	struct known_row row = { .hash.id = wanted + 1 };
	int err = -EBADMSG;

	if (wanted >= 0 && wanted < UINT32_MAX)
		err = index_writer__put_domain(m->merge->writer, wanted, sql_text(m->row, 1), &row.number, m->why);
	return err > 0 ? -EBADMSG : err ?: known_add(&m->source->domains, &row);
}

static int merge_origin(struct merging *m)
{
	const struct known_row *domain = known_find(&m->source->domains, sqlite3_column_int64(m->row, 2) + 1, 0);
	struct known_row origin = { .hash.id = sqlite3_column_int64(m->row, 1) };

	if (origin.hash.id <= 0 || sqlite3_column_int64(m->row, 0) != (int64_t)m->source->origin_nr)
		return -EBADMSG;
	/* A domain of our own may have no name. */
	origin.domain = domain ? domain->number : sqlite3_column_int64(m->row, 2);
	return index_writer__put_origin(m->merge->writer, &origin, m->why) ?: array_push(m->source, origin, origin.number);
}

/* Columns: path, snapshot_id, and the others of the table in its order. */
static int merge_snapshot(struct merging *m)
{
	struct catalogue_merge *merge = m->merge;
	struct known_row row = { .hash.id = sqlite3_column_int64(m->row, 1), .number = merge->snapshot_nr };
	int err;

	if (row.hash.id <= 0)
		return -EBADMSG;
	if (known_find(&merge->snapshots, row.hash.id, 0))
		return 0;
	err = known_add(&merge->snapshots, &row) ?:
	      array_push(merge, snapshot, ((struct merged_snapshot){ m->source - merge->source, false }));
	sqlite3_bind_int64(m->insert, 1, merge->snapshot_nr);
	bind_columns(m, 0, 2);
	return err ?: run_insert(m);
}

/* Columns: snapshot_id, name, value. */
static int merge_pair(struct merging *m)
{
	const struct known_row *row = known_find(&m->merge->snapshots, sqlite3_column_int64(m->row, 0), 0);

	if (!row || m->merge->snapshot[row->number].source != m->source - m->merge->source)
		return row ? 0 : -EBADMSG;
	sqlite3_bind_int64(m->insert, 1, row->number + 1);
	bind_columns(m, 1, 2);
	return run_insert(m);
}

#define X(name) ", " #name

/* A name with the same id and another content breaks the table's key: that is an error. */
static const struct {
	const char *select, *insert;
	int (*merge)(struct merging *m);
} tables[] = {
	{ "SELECT * FROM frame", "INSERT INTO frame SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE NOT EXISTS"
	  " (SELECT 1 FROM frame WHERE frame_id = ?1 AND verify = ?2)", copy_row },
	{ "SELECT * FROM traceback", "INSERT INTO traceback SELECT ?1, ?2, ?3 WHERE NOT EXISTS"
	  " (SELECT 1 FROM traceback WHERE traceback_id = ?1 AND verify = ?2)", copy_row },
	{ "SELECT number, name FROM domain ORDER BY number", NULL, merge_domain },
	{ "SELECT number, traceback_id, domain FROM origin ORDER BY number", NULL, merge_origin },
	{ "SELECT DISTINCT path FROM file", "INSERT OR IGNORE INTO file (path, size, mtime_ns, inode, problem, line)"
	  " VALUES (?, 0, 0, 0, 0, '')", copy_row },
	{ "SELECT path, snapshot_id, verify, process_id, time_ns, monotonic_ns, recording_ns, interval_ns"
	  FLEET_TEXTS(X) ", pid, start_ticks, exec_count, s.size, count, gap_size, gap_count, row_nr, traceback_limit,"
	  " is_sampled, sample_bytes_most, is_part FROM snapshot AS s JOIN file AS f ON f.number = s.file ORDER BY s.number",
	  "INSERT INTO snapshot (number, file, snapshot_id, verify, process_id, time_ns, monotonic_ns, recording_ns,"
	  " interval_ns" FLEET_TEXTS(X) ", pid, start_ticks, exec_count, size, count, gap_size, gap_count, row_nr,"
	  " traceback_limit, is_sampled, sample_bytes_most, is_part) VALUES (?1, (SELECT number FROM file WHERE path = ?2), ?3, ?4, ?5, ?6,"
	  " ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29,"
	  " ?30, ?31, ?32)", merge_snapshot },
	{ "SELECT snapshot_id, name, value FROM label AS l JOIN snapshot AS s ON s.number = l.snapshot",
	  "INSERT INTO label VALUES (?, ?, ?)", merge_pair },
	{ "SELECT snapshot_id, name, value FROM loss AS l JOIN snapshot AS s ON s.number = l.snapshot",
	  "INSERT INTO loss VALUES (?, ?, ?)", merge_pair },
};

#undef X

static int merge_table(struct catalogue_merge *merge, struct merged_source *source, size_t at, struct reason *why)
{
	struct merging m = { .merge = merge, .source = source, .why = why };
	int more = 0, err = sql_prepare(source->catalogue, tables[at].select, &m.row, why);

	if (!err && tables[at].insert)
		err = sql_prepare(merge->catalogue, tables[at].insert, &m.insert, why);
	while (!err && (more = sql_step(source->catalogue, m.row, why)) > 0) {
		reason_set(why, 0, "%s", "");
		err = tables[at].merge(&m);
	}
	sqlite3_finalize(m.row);
	sqlite3_finalize(m.insert);
	if (more < 0)
		return more;
	if (err == -EBADMSG && why && !*why->text)
		return catalogue_report_damage(source->catalogue, why, "an invalid id or number");
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}

static int merge_source(struct catalogue_merge *merge, const char *path, struct reason *why)
{
	struct merged_source *source = &merge->source[merge->source_nr];
	int err = catalogue__open(path, CATALOGUE_READ, &source->catalogue, why);

	merge->source_nr += !err;
	for (size_t i = 0; i < ARRAY_SIZE(tables) && !err; i++)
		err = merge_table(merge, source, i, why);
	return err;
}

/* ---- rows of snapshots ---------------------------------------------------------------------------------------- */

static int merge_snapshot_rows(struct catalogue_merge *merge, const struct fleet_snapshot *snapshot, sqlite3_stmt *insert,
		      struct fleet_rows *rows, struct reason *why)
{
	const struct known_row *row = known_find(&merge->snapshots, snapshot->snapshot_id, 0);
	struct merged_snapshot *merged = &merge->snapshot[row->number];
	struct merged_source *source = &merge->source[merged->source];
	struct fleet_rows sorted = {};
	void *bytes = NULL;
	size_t len = 0;
	int err;

	if (merged->is_read)
		return 0;
	merged->is_read = true;
	err = source->reader ? 0 : rows_reader__new(source->catalogue, &source->reader, why);
	err = err ?: rows_reader__read(source->reader, snapshot->snapshot_id, source->origin_nr, rows, why);
	if (err)
		return err;
	for (size_t i = 0; i < rows->nr; i++)
		rows->row[i].origin = source->origin[rows->row[i].origin];
	err = rows_by_origin(&sorted, rows) ?: fleet_rows_encode(&sorted, &bytes, &len);
	fleet_rows_release(&sorted);
	sqlite3_bind_int64(insert, 1, row->number + 1);
	err = err ? reason_set(why, err, "out of memory") :
		    sql_bind_blob(merge->catalogue, insert, 2, bytes, len, why) ?: sql_finish(merge->catalogue, insert, why);
	free(bytes);
	return err;
}

int catalogue_merge__read(struct catalogue_merge *merge, const struct cohort *const *cohort, size_t cohort_nr,
			  struct reason *why)
{
	struct fleet_rows rows = {};
	sqlite3_stmt *insert = NULL;
	int err = sql_prepare(merge->catalogue, "INSERT INTO snapshot_rows VALUES (?, ?)", &insert, why);

	for (size_t side = 0; side < cohort_nr; side++)
		for (size_t i = 0; i < cohort[side]->snapshot_nr && !err; i++)
			err = merge_snapshot_rows(merge, cohort[side]->snapshot[i], insert, &rows, why);
	sqlite3_finalize(insert);
	fleet_rows_release(&rows);
	return err ?: catalogue__seal(merge->catalogue, why);
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static int merge_sources(struct catalogue_merge *merge, const char *const *path, size_t path_nr, struct reason *why)
{
	struct library library;
	int err = library_load(&library, merge->catalogue, why) ?:
		  index_writer__new(merge->catalogue, &library, &merge->writer, why);

	for (size_t i = 0; i < path_nr && !err; i++)
		err = merge_source(merge, path[i], why);
	index_writer__free(merge->writer);
	library_release(&library);
	return err;
}

int catalogue_merge__new(const char *const *path, size_t path_nr, struct catalogue_merge **ret, struct reason *why)
{
	struct catalogue_merge *merge = calloc(1, sizeof(*merge));
	int err;

	if (merge)
		merge->source = calloc(path_nr + 1, sizeof(*merge->source));
	if (!merge || !merge->source) {
		free(merge);
		return reason_set(why, -ENOMEM, "out of memory");
	}
	err = catalogue__make_in_memory("the catalogues", &merge->catalogue, why) ?: merge_sources(merge, path, path_nr, why);
	if (!err) {
		*ret = merge;
		return 0;
	}
	catalogue__close(merge->catalogue);
	catalogue_merge__free(merge);
	return err;
}

struct catalogue *catalogue_merge__catalogue(const struct catalogue_merge *merge)
{
	return merge->catalogue;
}

void catalogue_merge__free(struct catalogue_merge *merge)
{
	if (!merge)
		return;
	for (size_t i = 0; i < merge->source_nr; i++) {
		rows_reader__free(merge->source[i].reader);
		catalogue__close(merge->source[i].catalogue);
		known_release(&merge->source[i].domains);
		free(merge->source[i].origin);
	}
	free(merge->source);
	free(merge->snapshot);
	known_release(&merge->snapshots);
	free(merge);
}
