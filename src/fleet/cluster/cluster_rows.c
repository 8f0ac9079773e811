// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/cluster/cluster_choose.h"
#include "fleet/cluster/cluster_private.h"

#define ROWS_A_QUERY 2000000

/* The rows of one snapshot in the part. */
struct part_snapshot {
	int64_t upload_id;
	size_t first, nr;
};

struct cluster_rows {
	struct cluster_units *units;
	const struct cohort *cohort;
	size_t at, begin, end; /* the next snapshot; the part, in the cohort */
	struct part_snapshot *snapshot;
	struct known uploads; /* their numbers in `snapshot` */
	struct fleet_row *row;
	size_t row_nr, row_alloc, snapshot_nr, snapshot_alloc;
	struct spread *spread; /* of each row, if any is of samples */
	size_t spread_alloc, spread_nr;
	bool has_samples;
};

int cluster_rows__new(struct cluster_units *units, const struct cohort *cohort, struct cluster_rows **ret,
		      struct reason *why)
{
	struct cluster_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return reason_set(why, -ENOMEM, "out of memory");
	rows->units = units;
	rows->cohort = cohort;
	*ret = rows;
	return 0;
}

static void empty_part(struct cluster_rows *rows)
{
	known_release(&rows->uploads);
	rows->row_nr = rows->snapshot_nr = rows->spread_nr = 0;
	rows->has_samples = false;
}

void cluster_rows__free(struct cluster_rows *rows)
{
	if (!rows)
		return;
	empty_part(rows);
	free(rows->snapshot);
	free(rows->row);
	free(rows->spread);
	free(rows);
}

/* ---- one part ------------------------------------------------------------------------------------------------- */

/* value: upload, traceback, domain, size, count, and a spread. The rows of a snapshot come one after another. */
static int take_row(void *rows_, const union row_value *value)
{
	struct cluster_rows *rows = rows_;
	struct part_snapshot *last = rows->snapshot_nr ? &rows->snapshot[rows->snapshot_nr - 1] : NULL;
	struct fleet_row row = { .cost = { .size = value[3].number, .count = value[4].number } };
	const struct known_row upload = { .hash.id = value[0].number, .number = rows->snapshot_nr };
	int err = row.cost.size < 0 || row.cost.count < 0 ? -EBADMSG : 0;

	if (!err && (!last || last->upload_id != value[0].number))
		err = known_add(&rows->uploads, &upload) ?:
		      array_push(rows, snapshot, ((struct part_snapshot){ value[0].number, rows->row_nr, 0 }));
	err = err ?: units_find_origin(rows->units, value[1].number, value[2].number, &row.origin) ?:
	      array_push(rows, row, row);
	if (!err && rows->has_samples)
		err = array_push(rows, spread, ((struct spread){
			{ value[5].real, value[6].real, value[7].real }, { value[8].real, value[9].real, value[10].real },
		}));
	if (!err)
		rows->snapshot[rows->snapshot_nr - 1].nr++;
	return err;
}

/* A row of a snapshot without samples has zeros for a spread. */
static int ask_part(struct cluster_rows *rows, struct reason *why)
{
#define CHOSEN_ROWS "WHERE time BETWEEN {first} AND {last} AND upload_id IN (SELECT chosen_id FROM chosen)"
#define SPREAD "size_beyond, size_variance, size_covariance, count_beyond, count_variance, count_covariance"
	static const char exact[] = "SELECT upload_id, traceback_id, domain, size, count FROM allocation " CHOSEN_ROWS
				    " ORDER BY upload_id";
	static const char sampled[] = "SELECT upload_id, traceback_id, domain, size, count, " SPREAD " FROM (SELECT upload_id,"
				      " traceback_id, domain, size, count FROM allocation " CHOSEN_ROWS ") AS held LEFT JOIN"
				      " (SELECT upload_id, traceback_id, domain, " SPREAD " FROM sample " CHOSEN_ROWS
				      ") AS spreads USING (upload_id, traceback_id, domain) ORDER BY upload_id";

	return cluster_ask_chosen(rows->units->cluster, &(struct chosen_query){
		.sql = strdup(rows->has_samples ? sampled : exact), .snapshot = rows->cohort->snapshot + rows->begin,
		.snapshot_nr = rows->end - rows->begin, .types = rows->has_samples ? "iiiiirrrrrr" : "iiiii",
		.row = take_row, .what = rows,
	}, why);
}

static int read_part(struct cluster_rows *rows, size_t begin, struct reason *why)
{
	const struct cohort *cohort = rows->cohort;
	uint64_t row_nr = 0;

	empty_part(rows);
	rows->begin = rows->end = begin;
	for (; rows->end < cohort->snapshot_nr && (rows->end == begin || row_nr < ROWS_A_QUERY); rows->end++) {
		row_nr += cohort->snapshot[rows->end]->row_nr;
		rows->has_samples |= cohort->snapshot[rows->end]->is_sampled;
	}
	return ask_part(rows, why);
}

/* ---- one snapshot --------------------------------------------------------------------------------------------- */

static int copy_rows(const struct cluster_rows *rows, const struct part_snapshot *from, bool is_sampled,
		     struct fleet_rows *to)
{
	int err = fleet_rows_reserve(to, from->nr, is_sampled);

	for (size_t i = 0; i < from->nr && !err; i++) {
		to->row[i] = rows->row[from->first + i];
		if (is_sampled)
			to->spread[i] = rows->spread[from->first + i];
	}
	to->nr = err ? 0 : from->nr;
	return err;
}

int cluster_rows__read(struct cluster_rows *rows, const struct fleet_snapshot *snapshot, struct fleet_rows *ret,
		       struct reason *why)
{
	static const struct part_snapshot none;
	const struct known_row *upload;
	const struct part_snapshot *part;
	int err = rows->at < rows->end ? 0 : read_part(rows, rows->at, why);

	rows->at++;
	upload = known_find(&rows->uploads, snapshot->upload_id, 0);
	part = upload ? &rows->snapshot[upload->number] : &none;
	if (!err && part->nr != snapshot->row_nr)
		err = units_report_lack(rows->units, why);
	err = err ?: copy_rows(rows, part, snapshot->is_sampled, ret);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
