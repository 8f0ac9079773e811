// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The snapshots of a catalogue as rows. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/row_codec.h"
#include "fleet/row_export.h"
#include "fleet/row_top.h"

/* An insert of many rows costs a server less than many inserts. They take 50 MB of memory here. */
#define ROWS_A_BATCH 1000000
#define SNAPSHOTS_A_BATCH 20000
#define TEXT_BYTES_A_BATCH (16 << 20) /* of labels and the like: a file may have megabytes of them */

/* An origin as rows have it. */
struct row_origin {
	int64_t traceback_id, domain;
};

struct row_sending {
	const struct row_snapshots *job;
	struct row_sink *sink;
	struct row_origin *origin;
	size_t origin_nr, origin_alloc;
	uint32_t *other; /* of each origin, if there are sums: the origin of its domain's sum */
	size_t other_nr, other_alloc;
	uint32_t *rank;	 /* of each origin, by traceback and domain */
	uint64_t *order; /* of the rows of one snapshot: rank, and number of the row */
	size_t order_alloc;
	struct rows_reader *reader;
	struct fleet_rows rows;
	struct row_top top;
	uint64_t merged; /* rows of the snapshot that are in sums */
	struct row_batch allocations, samples, labels, losses, snapshots;
	uint64_t row_nr; /* sent */
};

/* ---- origins -------------------------------------------------------------------------------------------------- */

static int load_row_origins(struct row_sending *s, struct reason *why)
{
	static const char sql[] = "SELECT o.number, traceback_id, o.domain, coalesce(name, '#' || o.domain) FROM origin AS o"
				  " LEFT JOIN domain AS d ON d.number = o.domain ORDER BY o.number";
	const struct catalogue *catalogue = s->job->catalogue;
	sqlite3_stmt *row;
	int more, err = sql_prepare(catalogue, sql, &row, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, row, why)) > 0 && !err) {
		const struct row_origin origin = {
			sqlite3_column_int64(row, 1), row_domain_id(sqlite3_column_int64(row, 2), sql_text(row, 3)),
		};

		if (sqlite3_column_int64(row, 0) != (int64_t)s->origin_nr)
			err = catalogue_report_damage(catalogue, why, "an origin out of order");
		else
			err = array_push(s, origin, origin);
	}
	sqlite3_finalize(row);
	return more < 0 ? more : err;
}

/* The sums' origins come after the catalogue's origins. */
static int find_origin_of_sum(struct row_sending *s, size_t first, int64_t domain, uint32_t *ret)
{
	size_t at = first;

	while (at < s->origin_nr && s->origin[at].domain != domain)
		at++;
	*ret = at;
	return at < s->origin_nr ? 0 : array_push(s, origin, ((struct row_origin){ row_other_traceback().id, domain }));
}

static int add_origins_of_sums(struct row_sending *s)
{
	size_t nr = s->job->top ? s->origin_nr : 0;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		uint32_t other = 0;

		err = find_origin_of_sum(s, nr, s->origin[i].domain, &other) ?: array_push(s, other, other);
	}
	s->top.row_nr = s->job->top;
	s->top.other = s->other;
	return err;
}

static int compare_origins(const void *left, const void *right, void *origin_)
{
	const struct row_origin *origin = origin_;
	const struct row_origin *a = &origin[*(const uint32_t *)left], *b = &origin[*(const uint32_t *)right];

	return (a->traceback_id > b->traceback_id) - (a->traceback_id < b->traceback_id) ?:
	       (a->domain > b->domain) - (a->domain < b->domain);
}

/* Rows go out in the order of the tables, which a server need not sort then. */
static int rank_origins(struct row_sending *s)
{
	uint32_t *sorted = calloc(s->origin_nr + 1, sizeof(*sorted));

	s->rank = calloc(s->origin_nr + 1, sizeof(*s->rank));
	for (uint32_t i = 0; sorted && i < s->origin_nr; i++)
		sorted[i] = i;
	if (sorted && s->rank)
		qsort_r(sorted, s->origin_nr, sizeof(*sorted), compare_origins, s->origin);
	for (uint32_t i = 0; sorted && s->rank && i < s->origin_nr; i++)
		s->rank[sorted[i]] = i;
	free(sorted);
	return sorted && s->rank ? 0 : -ENOMEM;
}

static int compare_ranks(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static int order_by_rank(struct row_sending *s, const struct fleet_rows *rows)
{
	int err = array_reserve(&s->order, &s->order_alloc, rows->nr + 1);

	if (err)
		return err;
	for (size_t i = 0; i < rows->nr; i++)
		s->order[i] = (uint64_t)s->rank[rows->row[i].origin] << 32 | i;
	qsort(s->order, rows->nr, sizeof(*s->order), compare_ranks);
	return 0;
}

/* ---- one snapshot --------------------------------------------------------------------------------------------- */

static int64_t seconds_of(const struct fleet_snapshot *snapshot)
{
	return snapshot->time_ns / 1000000000;
}

static int send_rows(struct row_sending *s, const struct fleet_snapshot *snapshot, const struct fleet_rows *rows,
		     int64_t upload)
{
	int64_t time = seconds_of(snapshot);
	int err = order_by_rank(s, rows);

	for (size_t at = 0; at < rows->nr && !err; at++) {
		uint32_t i = s->order[at];
		const struct fleet_row *row = &rows->row[i];
		const struct row_origin *origin = &s->origin[row->origin];

		err = row_batch_add(&s->allocations, (union row_value[]){
			{ .number = upload }, { .number = time }, { .number = origin->traceback_id },
			{ .number = origin->domain }, { .number = row->cost.size }, { .number = row->cost.count },
		});
		if (err || !rows->spread)
			continue;
		err = row_batch_add(&s->samples, (union row_value[]){
			{ .number = upload }, { .number = time }, { .number = origin->traceback_id },
			{ .number = origin->domain }, { .real = rows->spread[i].size.beyond },
			{ .real = rows->spread[i].size.variance }, { .real = rows->spread[i].size.covariance },
			{ .real = rows->spread[i].count.beyond }, { .real = rows->spread[i].count.variance },
			{ .real = rows->spread[i].count.covariance },
		});
	}
	return err;
}

static int send_pairs(struct row_sending *s, const struct fleet_snapshot *snapshot, int64_t upload)
{
	const struct fleet_facts *facts = s->job->facts;
	int64_t time = seconds_of(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < snapshot->label_nr && !err; i++) {
		const struct fleet_pair *label = &facts->label[snapshot->label + i];

		err = row_batch_add(&s->labels, (union row_value[]){ { .number = upload }, { .number = time },
								     { .text = label->name }, { .text = label->value } });
	}
	for (uint32_t i = 0; i < snapshot->loss_nr && !err; i++) {
		const struct fleet_loss *loss = &facts->loss[snapshot->loss + i];

		err = row_batch_add(&s->losses, (union row_value[]){ { .number = upload }, { .number = time },
								     { .text = loss->name }, { .number = loss->value } });
	}
	if (!err && s->merged)
		err = row_batch_add(&s->losses, (union row_value[]){ { .number = upload }, { .number = time },
								     { .text = ROW_LOSS_MERGED }, { .number = s->merged } });
	return err;
}

/* Ids of what processes have in common: comparing these costs a server less than comparing texts. */
struct snapshot_keys {
	int64_t host, boot, task;
};

static struct snapshot_keys snapshot_keys_of(const struct fleet_snapshot *snapshot)
{
	struct hash_id host = hash_id_make(snapshot->host, strlen(snapshot->host));
	const struct hash_id in_host[] = { host, hash_id_make(snapshot->boot_id, strlen(snapshot->boot_id)) };
	struct hash_id boot = hash_id_make(in_host, sizeof(in_host));
	const int64_t in_boot[] = { boot.id, boot.verify, snapshot->pid, snapshot->start_ticks };

	return (struct snapshot_keys){ host.id, *snapshot->boot_id ? boot.id : 0, hash_id_make(in_boot, sizeof(in_boot)).id };
}

static int send_snapshot_row(struct row_sending *s, const struct fleet_snapshot *snapshot, size_t row_nr,
			     int64_t upload)
{
	int64_t clock = snapshot->monotonic_ns > 0 ? snapshot->monotonic_ns : snapshot->time_ns;
	int64_t moment = (int64_t)(2 * (uint64_t)clock + !snapshot->is_part);
	struct snapshot_keys keys = snapshot_keys_of(snapshot);

	return row_batch_add(&s->snapshots, (union row_value[]){
		{ .number = upload }, { .number = snapshot->snapshot_id }, { .number = snapshot->process_id },
		{ .number = seconds_of(snapshot) }, { .number = moment }, { .number = clock },
		{ .number = snapshot->time_ns }, { .number = snapshot->monotonic_ns },
		{ .number = snapshot->recording_ns }, { .number = snapshot->interval_ns }, { .text = snapshot->host },
		{ .text = snapshot->comm }, { .text = snapshot->exe }, { .text = snapshot->exe_build_id }, { .text = snapshot->cgroup },
		{ .text = snapshot->container }, { .text = snapshot->boot_id }, { .text = snapshot->kernel },
		{ .text = snapshot->version }, { .text = snapshot->trigger }, { .text = snapshot->own_ending },
		{ .text = snapshot->path }, { .number = snapshot->pid }, { .number = snapshot->start_ticks },
		{ .number = snapshot->exec_count }, { .number = snapshot->size }, { .number = snapshot->count },
		{ .number = snapshot->gap_blocks.size }, { .number = snapshot->gap_blocks.count },
		{ .number = row_nr }, { .number = snapshot->traceback_limit },
		{ .number = snapshot->is_sampled + snapshot->is_open }, { .number = snapshot->sample_bytes_most },
		{ .number = snapshot->is_part }, { .number = keys.host }, { .number = keys.boot }, { .number = keys.task },
	});
}

/* ---- all snapshots -------------------------------------------------------------------------------------------- */

static int flush_rows(struct row_sending *s, struct row_sent *sent, struct reason *why)
{
	struct row_batch *const batches[] = { &s->allocations, &s->samples, &s->labels, &s->losses, &s->snapshots };
	const struct row_sent now = { s->snapshots.row_nr, s->allocations.row_nr };
	int err = 0;

	s->row_nr += s->allocations.row_nr;
	for (size_t i = 0; i < ARRAY_SIZE(batches); i++) {
		if (!err && batches[i]->row_nr)
			err = s->sink->insert(s->sink, batches[i], why);
		row_batch_clear(batches[i]);
	}
	sent->snapshots += err ? 0 : now.snapshots;
	sent->rows += err ? 0 : now.rows;
	return err;
}

static bool is_batch_full(const struct row_sending *s)
{
	return s->allocations.row_nr >= ROWS_A_BATCH || s->snapshots.row_nr >= SNAPSHOTS_A_BATCH ||
	       row_batch_bytes(&s->labels) + row_batch_bytes(&s->losses) + row_batch_bytes(&s->snapshots) >= TEXT_BYTES_A_BATCH;
}

static int send_snapshot(struct row_sending *s, const struct fleet_snapshot *snapshot, int64_t upload,
			 struct reason *why)
{
	const struct fleet_rows *rows;
	int err = rows_reader__read(s->reader, snapshot->snapshot_id, s->job->facts->origin_nr, &s->rows, why);

	if (!err && s->rows.nr != snapshot->row_nr)
		err = catalogue_report_damage(s->job->catalogue, why, "a snapshot that lacks rows");
	if (err)
		return err;
	rows = row_top_choose(&s->top, &s->rows, &s->merged);
	if (!rows)
		return -ENOMEM;
	return send_rows(s, snapshot, rows, upload) ?: send_pairs(s, snapshot, upload) ?:
	       send_snapshot_row(s, snapshot, rows->nr, upload);
}

static int send_all_snapshots(struct row_sending *s, struct row_sent *sent, struct reason *why)
{
	const struct row_snapshots *job = s->job;
	int err = load_row_origins(s, why) ?: add_origins_of_sums(s) ?: rank_origins(s) ?:
		  rows_reader__new(job->catalogue, &s->reader, why);

	for (size_t i = 0; i < job->snapshot_nr && !err; i++) {
		int64_t upload = job->upload_base ? job->upload_base + (int64_t)i : job->snapshot[i]->snapshot_id;

		err = send_snapshot(s, job->snapshot[i], upload, why);
		if (!err && is_batch_full(s))
			err = flush_rows(s, sent, why);
		if (job->progress)
			job->progress(job->what, s->row_nr + s->allocations.row_nr);
	}
	return err ?: flush_rows(s, sent, why);
}

int row_export_snapshots(const struct row_snapshots *job, struct row_sink *sink, struct row_sent *ret,
			 struct reason *why)
{
	struct row_sending s = { .job = job, .sink = sink };
	int err;

	*ret = (struct row_sent){};
	reason_set(why, 0, "out of memory");
	row_batch_init(&s.allocations, ROW_ALLOCATION);
	row_batch_init(&s.samples, ROW_SAMPLE);
	row_batch_init(&s.labels, ROW_LABEL);
	row_batch_init(&s.losses, ROW_LOSS);
	row_batch_init(&s.snapshots, ROW_SNAPSHOT);
	err = send_all_snapshots(&s, ret, why);
	rows_reader__free(s.reader);
	fleet_rows_release(&s.rows);
	row_top_release(&s.top);
	free(s.other);
	free(s.origin);
	free(s.rank);
	free(s.order);
	row_batch_release(&s.allocations);
	row_batch_release(&s.samples);
	row_batch_release(&s.labels);
	row_batch_release(&s.losses);
	row_batch_release(&s.snapshots);
	return err;
}
