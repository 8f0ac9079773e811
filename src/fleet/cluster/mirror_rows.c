// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rows of chosen snapshots: their sums, or each. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/mirror_private.h"
#include "engine/trace_cost.h"
#include "fleet/row_codec.h"
#include "fleet/row_schema.h"

#define ROWS_A_QUERY 2000000

/* Puts the cohort's first and last time into the places of a query; the caller frees it. */
static char *fill_times(const char *sql, const struct cohort *cohort)
{
	const char *first_at = strstr(sql, "{first}"), *last_at = strstr(sql, "{last}");
	int64_t first = INT64_MAX, last = INT64_MIN;
	char *filled;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		int64_t time = cohort->snapshot[i]->time_ns / 1000000000;

		first = time < first ? time : first;
		last = time > last ? time : last;
	}
	if (asprintf(&filled, "%.*s%" PRId64 "%.*s%" PRId64 "%s", (int)(first_at - sql), sql, first,
		     (int)(last_at - first_at - strlen("{first}")), first_at + strlen("{first}"), last,
		     last_at + strlen("{last}")) < 0)
		return NULL;
	return filled;
}

/* Asks about the chosen uploads, in the partitions of their times. */
static int ask_uploads(struct cluster_mirror *mirror, const struct cohort *chosen, const struct cluster_query *query,
		       struct reason *why)
{
	struct cluster_numbers numbers = { .nr = chosen->snapshot_nr };
	struct cluster_query filled = *query;
	char *sql = fill_times(query->sql, chosen);
	int64_t *upload = NULL;
	int err = sql ? mirror_list_uploads(mirror, chosen, &upload) : -ENOMEM;

	filled.sql = sql;
	filled.numbers = &numbers;
	numbers.number = upload;
	err = err ? reason_set(why, err, "out of memory") : cluster__ask(mirror->cluster, &filled, why);
	free(upload);
	free(sql);
	return err;
}

/* ---- sums ----------------------------------------------------------------------------------------------------- */

struct sums_reading {
	struct cluster_mirror *mirror;
	struct fleet_sum *sum;
	size_t cost_alloc;
	uint64_t row_nr;
	struct reason *why;
};

bool cluster_mirror_can_sum(const struct cohort *cohort)
{
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		if (cohort->snapshot[i]->is_sampled)
			return false;
	return true;
}

/* value: traceback, domain, bytes, blocks, bytes as a double, rows. A server's sum of integers wraps around. */
static int take_sum(void *reading_, const union row_value *value)
{
	struct sums_reading *reading = reading_;
	struct fleet_sum *sum = reading->sum;
	uint32_t origin = 0;
	int err = mirror_find_origin(reading->mirror, value[0].number, value[1].number, &origin, reading->why);

	if (!err && (value[4].real > 9.2e18 || value[2].number < 0 || value[3].number < 0))
		err = -ERANGE;
	if (!err)
		err = array_reserve(&sum->cost, &reading->cost_alloc, origin + 1ull);
	for (; !err && sum->origin_nr <= origin; sum->origin_nr++)
		sum->cost[sum->origin_nr] = (struct cost){};
	if (err)
		return err;
	sum->cost[origin] = (struct cost){ .size = value[2].number, .count = value[3].number };
	reading->row_nr += value[5].number;
	return 0;
}

int cluster_mirror__sum(struct cluster_mirror *mirror, const struct cohort *cohort, struct fleet_sum *ret,
			struct reason *why)
{
	static const enum row_type types[] = { ROW_INT, ROW_INT, ROW_INT, ROW_INT, ROW_REAL, ROW_INT };
	struct fleet_sum sum = {};
	struct sums_reading reading = { .mirror = mirror, .sum = &sum, .why = why };
	const struct cluster_query query = {
		.sql = row_question_sums(), .type = types, .column_nr = ARRAY_SIZE(types), .row = take_sum, .what = &reading,
	};
	int err = ask_uploads(mirror, cohort, &query, why);

	if (!err && reading.row_nr != cohort_row_nr(cohort))
		err = mirror_report_lack(mirror, why);
	if (err == -ERANGE)
		err = cohort_explain_error(cost_too_much(why), &cohort, 1, why);
	if (err)
		fleet_sum_release(&sum);
	else
		*ret = sum;
	return err;
}

/* ---- each row ------------------------------------------------------------------------------------------------- */

struct mirror_sample {
	int64_t upload_id, traceback_id, domain;
	struct spread spread;
};

struct rows_reading {
	struct cluster_mirror *mirror;
	const struct fleet_snapshot *const *snapshot; /* those of one query, ordered by upload */
	size_t snapshot_nr;
	size_t at; /* the snapshot whose rows come now */
	struct fleet_rows rows;
	struct fleet_row *row; /* of that snapshot; their order is the server's, and spread's too */
	struct spread *spread;
	uint32_t *order;
	size_t row_nr, row_alloc, spread_alloc, order_alloc;
	struct mirror_sample *sample;
	size_t sample_nr, sample_alloc, sample_at;
	struct reason *why;
};

static int64_t upload_of(const struct cluster_mirror *mirror, const struct fleet_snapshot *snapshot)
{
	const struct known_row *row = known_find(&mirror->snapshots, snapshot->snapshot_id, 0);

	return row ? mirror->upload[row->number].upload_id : 0;
}

static int take_sample(void *reading_, const union row_value *value)
{
	struct rows_reading *reading = reading_;
	const struct mirror_sample sample = {
		.upload_id = value[0].number, .traceback_id = value[1].number, .domain = value[2].number,
		.spread = {
			.size = { value[3].real, value[4].real, value[5].real },
			.count = { value[6].real, value[7].real, value[8].real },
		},
	};

	return array_push(reading, sample, sample);
}

static int by_row_origin(const void *left, const void *right, void *row_)
{
	const struct fleet_row *row = row_;
	uint32_t a = row[*(const uint32_t *)left].origin, b = row[*(const uint32_t *)right].origin;

	return (a > b) - (a < b);
}

/* Puts the rows of the snapshot into the form of a catalogue: they ascend by origin. */
static int order_rows(struct rows_reading *reading, bool is_sampled)
{
	struct fleet_rows *rows = &reading->rows;
	int err = fleet_rows_reserve(rows, reading->row_nr, is_sampled) ?:
		  array_reserve(&reading->order, &reading->order_alloc, reading->row_nr + 1);

	if (err)
		return err;
	for (size_t i = 0; i < reading->row_nr; i++)
		reading->order[i] = i;
	qsort_r(reading->order, reading->row_nr, sizeof(*reading->order), by_row_origin, reading->row);
	rows->nr = reading->row_nr;
	for (size_t i = 0; i < rows->nr; i++) {
		rows->row[i] = reading->row[reading->order[i]];
		if (is_sampled)
			rows->spread[i] = reading->spread[reading->order[i]];
	}
	return 0;
}

static int end_fetched_snapshot(struct rows_reading *reading)
{
	struct cluster_mirror *mirror = reading->mirror;
	const struct fleet_snapshot *snapshot = reading->snapshot[reading->at];
	const struct known_row *known = known_find(&mirror->snapshots, snapshot->snapshot_id, 0);
	sqlite3_stmt *insert = mirror->insert[MIRROR_ROWS];
	void *bytes = NULL;
	size_t len = 0;
	int err;

	if (!known || reading->row_nr != snapshot->row_nr)
		return mirror_report_lack(mirror, reading->why);
	err = order_rows(reading, snapshot->is_sampled) ?: fleet_rows_encode(&reading->rows, &bytes, &len);
	if (err)
		return err;
	sqlite3_bind_int64(insert, 1, known->number + 1);
	err = sql_bind_blob(mirror->catalogue, insert, 2, bytes, len, reading->why) ?:
	      sql_finish(mirror->catalogue, insert, reading->why);
	free(bytes);
	reading->row_nr = 0;
	reading->at++;
	return err;
}

/* Samples come in the order of rows. */
static int find_sample(struct rows_reading *reading, const union row_value *value, struct spread *ret)
{
	const struct mirror_sample *sample = &reading->sample[reading->sample_at++];

	if (reading->sample_at > reading->sample_nr || sample->upload_id != value[0].number ||
	    sample->traceback_id != value[1].number || sample->domain != value[2].number)
		return mirror_report_lack(reading->mirror, reading->why);
	*ret = sample->spread;
	return 0;
}

static int take_row(void *reading_, const union row_value *value)
{
	struct rows_reading *reading = reading_;
	struct fleet_row row = { .cost = { .size = value[3].number, .count = value[4].number } };
	int err = 0;

	while (!err && reading->at < reading->snapshot_nr &&
	       upload_of(reading->mirror, reading->snapshot[reading->at]) != value[0].number)
		err = end_fetched_snapshot(reading);
	if (err)
		return err;
	if (reading->at == reading->snapshot_nr || row.cost.size < 0 || row.cost.count < 0)
		return -EBADMSG;
	err = mirror_find_origin(reading->mirror, value[1].number, value[2].number, &row.origin, reading->why) ?:
	      array_reserve(&reading->spread, &reading->spread_alloc, reading->row_nr + 1);
	if (!err && reading->snapshot[reading->at]->is_sampled)
		err = find_sample(reading, value, &reading->spread[reading->row_nr]);
	return err ?: array_push(reading, row, row);
}

static int ask_rows(struct rows_reading *reading, struct reason *why)
{
	static const enum row_type row[] = { ROW_INT, ROW_INT, ROW_INT, ROW_INT, ROW_INT };
	static const enum row_type sample[] = {
		ROW_INT, ROW_INT, ROW_INT, ROW_REAL, ROW_REAL, ROW_REAL, ROW_REAL, ROW_REAL, ROW_REAL,
	};
	const struct cohort chosen = { .snapshot = (const struct fleet_snapshot **)reading->snapshot,
				       .snapshot_nr = reading->snapshot_nr };
	struct cluster_query query = {
		.sql = "SELECT upload_id, traceback_id, domain, size_beyond, size_variance, size_covariance, count_beyond,"
		       " count_variance, count_covariance FROM sample WHERE time BETWEEN {first} AND {last}"
		       " AND upload_id IN (SELECT chosen_id FROM chosen) ORDER BY upload_id, traceback_id, domain",
		.type = sample, .column_nr = ARRAY_SIZE(sample), .row = take_sample, .what = reading,
	};
	int err = 0;

	if (!cluster_mirror_can_sum(&chosen))
		err = ask_uploads(reading->mirror, &chosen, &query, why);
	query.sql = "SELECT upload_id, traceback_id, domain, size, count FROM allocation WHERE time BETWEEN {first} AND {last}"
		    " AND upload_id IN (SELECT chosen_id FROM chosen) ORDER BY upload_id, traceback_id, domain";
	query.type = row;
	query.column_nr = ARRAY_SIZE(row);
	query.row = take_row;
	err = err ?: ask_uploads(reading->mirror, &chosen, &query, why);
	while (!err && reading->at < reading->snapshot_nr)
		err = end_fetched_snapshot(reading);
	return err;
}

static int fetch_snapshots(struct cluster_mirror *mirror, const struct fleet_snapshot *const *snapshot, size_t nr,
			   struct reason *why)
{
	struct rows_reading reading = { .mirror = mirror, .snapshot = snapshot, .snapshot_nr = nr, .why = why };
	int err = ask_rows(&reading, why);

	fleet_rows_release(&reading.rows);
	free(reading.row);
	free(reading.spread);
	free(reading.order);
	free(reading.sample);
	return err;
}

/* ---- in parts ------------------------------------------------------------------------------------------------- */

static int by_upload(const void *left, const void *right, void *mirror)
{
	int64_t a = upload_of(mirror, *(const struct fleet_snapshot *const *)left);
	int64_t b = upload_of(mirror, *(const struct fleet_snapshot *const *)right);

	return (a > b) - (a < b);
}

/* The cohort's snapshots that were not fetched before. */
static int list_unfetched(struct cluster_mirror *mirror, const struct cohort *cohort, struct cohort *ret)
{
	int err = 0;

	for (size_t i = 0; i < cohort->snapshot_nr && !err; i++) {
		const struct known_row *row = known_find(&mirror->snapshots, cohort->snapshot[i]->snapshot_id, 0);

		if (!row)
			return -EBADMSG;
		if (!mirror->upload[row->number].is_fetched)
			err = array_push(ret, snapshot, cohort->snapshot[i]);
		mirror->upload[row->number].is_fetched = true;
	}
	if (!err && ret->snapshot_nr)
		qsort_r(ret->snapshot, ret->snapshot_nr, sizeof(*ret->snapshot), by_upload, mirror);
	return err;
}

int cluster_mirror__fetch(struct cluster_mirror *mirror, const struct cohort *cohort, struct reason *why)
{
	struct cohort chosen = {};
	int err = list_unfetched(mirror, cohort, &chosen);

	if (err)
		err = reason_set(why, err, "out of memory");
	for (size_t first = 0, end; first < chosen.snapshot_nr && !err; first = end) {
		uint64_t row_nr = 0;

		for (end = first; end < chosen.snapshot_nr && (end == first || row_nr < ROWS_A_QUERY); end++)
			row_nr += chosen.snapshot[end]->row_nr;
		err = fetch_snapshots(mirror, chosen.snapshot + first, end - first, why);
	}
	cohort_release(&chosen);
	return err;
}
