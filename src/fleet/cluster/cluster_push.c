// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/row_export.h"
#include "fleet/row_top.h"

/* ---- what the cluster has ------------------------------------------------------------------------------------- */

static int take_known(void *known, const union row_value *value)
{
	const struct known_row row = { .hash = { value[0].number, value[1].number } };

	return row.hash.id <= 0 || known_find(known, row.hash.id, 0) ? 0 : known_add(known, &row);
}

static int ask_known(struct cluster *cluster, const char *sql, const struct cluster_table *numbers,
		     struct known *known, struct reason *why)
{
	static const enum row_type types[] = { ROW_INT, ROW_INT };
	const struct cluster_query query = {
		.sql = sql, .table = numbers, .table_nr = numbers != NULL, .type = types, .column_nr = 2, .row = take_known, .what = known,
	};

	return cluster__ask(cluster, &query, why);
}

struct own_ids {
	int64_t *id;
	size_t id_nr, id_alloc;
};

static int list_own_ids(const struct catalogue *catalogue, const char *sql, struct own_ids *ids, struct reason *why)
{
	sqlite3_stmt *row;
	int more, err = sql_prepare(catalogue, sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0 && !err)
		err = array_push(ids, id, sqlite3_column_int64(row, 0));
	sqlite3_finalize(row);
	return more < 0 ? more : err ? reason_set(why, err, "out of memory") : 0;
}

/* A cluster may have far more names than one host, so it is asked about those of the catalogue, and one of our own. */
static int ask_own_names(struct cluster *cluster, const struct cluster_push *job, const char *own, int64_t more,
			 const char *sql, struct known *known, struct reason *why)
{
	struct own_ids ids = {};
	int err = list_own_ids(job->catalogue, own, &ids, why);

	if (!err && array_push(&ids, id, more))
		err = reason_set(why, -ENOMEM, "out of memory");
	if (!err)
		err = ask_known(cluster, sql, &(struct cluster_table){ .number = ids.id, .nr = ids.id_nr }, known, why);
	free(ids.id);
	return err;
}

/* Tracebacks whose own frames an allocsnap of another version has found are sent again. */
static int ask_known_names(struct cluster *cluster, const struct cluster_push *job, struct row_known *known,
			   struct reason *why)
{
	char sql[192];

	snprintf(sql, sizeof(sql), "SELECT DISTINCT traceback_id, verify FROM traceback"
		 " WHERE rules = %" PRId64 " AND traceback_id IN (SELECT chosen_id FROM chosen)", row_own_frame_rules());
	return ask_own_names(cluster, job, "SELECT traceback_id FROM traceback", row_other_traceback().id,
			     sql, &known->tracebacks, why) ?:
	       ask_own_names(cluster, job, "SELECT frame_id FROM frame", row_other_frame().id,
			     "SELECT DISTINCT frame_id, verify FROM frame"
			     " WHERE frame_id IN (SELECT chosen_id FROM chosen)", &known->frames, why) ?:
	       /* A domain's number may be 0, and an id may not. */
	       ask_known(cluster, "SELECT DISTINCT domain + 1, toInt64(0) FROM domain", NULL, &known->domains, why);
}

/* Snapshots of other times cannot be those. */
static int ask_snapshots(struct cluster *cluster, const struct cohort *cohort, struct known *known, struct reason *why)
{
	int64_t first = INT64_MAX, last = INT64_MIN;
	char sql[192];

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		int64_t time = cohort->snapshot[i]->time_ns / 1000000000;

		first = time < first ? time : first;
		last = time > last ? time : last;
	}
	snprintf(sql, sizeof(sql), "SELECT DISTINCT snapshot_id, toInt64(0) FROM snapshot WHERE time >= %" PRId64
		 " AND time <= %" PRId64, first, last);
	return ask_known(cluster, sql, NULL, known, why);
}

/* ---- what is new ---------------------------------------------------------------------------------------------- */

static int compare_snapshot_times(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(const struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(const struct fleet_snapshot *const *)right;

	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns) ?: (a > b) - (a < b);
}

/* The new snapshots, the oldest first: an insert is then of few partitions, and a cut push has a beginning. */
static int choose_new_snapshots(const struct cohort *cohort, const struct known *known, struct cohort *ret)
{
	int err = 0;

	for (size_t i = 0; i < cohort->snapshot_nr && !err; i++)
		if (!known_find(known, cohort->snapshot[i]->snapshot_id, 0))
			err = array_push(ret, snapshot, cohort->snapshot[i]);
	if (!err && ret->snapshot_nr)
		qsort(ret->snapshot, ret->snapshot_nr, sizeof(*ret->snapshot), compare_snapshot_times);
	return err;
}

/* Uploads of different pushes need different numbers: 62 random bits, and room for the snapshots of one push. */
static int draw_upload_base(int64_t *ret, struct reason *why)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return reason_set(why, -errno, "no random number: %s", strerror(errno));
	*ret = (random >> 2) + 1;
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static void show_pushed_rows(void *progress, uint64_t row_nr)
{
	progress_show(progress, row_nr);
}

static int push_new(struct cluster *cluster, const struct cluster_push *job, const struct cohort *cohort,
		    struct cluster_pushed *pushed, struct reason *why)
{
	struct progress progress = progress_begin("pushing", "rows", cohort_row_nr(cohort));
	struct row_snapshots snapshots = {
		.catalogue = job->catalogue, .facts = job->facts, .snapshot = cohort->snapshot,
		.snapshot_nr = cohort->snapshot_nr, .top = job->top, .progress = show_pushed_rows, .what = &progress,
	};
	struct row_sent sent = {};
	int err = draw_upload_base(&snapshots.upload_base, why);

	if (!err)
		err = row_export_snapshots(&snapshots, cluster__sink(cluster), &sent, why);
	pushed->snapshots = sent.snapshots;
	pushed->rows = sent.rows;
	progress_end(&progress);
	return err;
}

int cluster_push(struct cluster *cluster, const struct cluster_push *job, struct cluster_pushed *ret,
		 struct reason *why)
{
	struct row_known names = {};
	struct known snapshots = {};
	struct cohort new = {};
	int err;

	*ret = (struct cluster_pushed){};
	err = ask_snapshots(cluster, job->cohort, &snapshots, why);
	if (!err && choose_new_snapshots(job->cohort, &snapshots, &new))
		err = reason_set(why, -ENOMEM, "out of memory");
	ret->known = job->cohort->snapshot_nr - new.snapshot_nr;
	if (!err && new.snapshot_nr)
		err = ask_known_names(cluster, job, &names, why) ?:
		      row_export_names(job->catalogue, &names, job->top, cluster__sink(cluster), why) ?:
		      push_new(cluster, job, &new, ret, why);
	row_known_release(&names);
	known_release(&snapshots);
	cohort_release(&new);
	return err;
}
