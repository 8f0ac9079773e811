// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zstd.h>

#include "base/array.h"
#include "base/progress.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/cluster/cluster_private.h"
#include "fleet/cluster/cluster_schema.h"
#include "fleet/index.h"
#include "fleet/row_export.h"
#include "fleet/row_top.h"
#include "fleet/selection.h"

/* ---- native rows ---- */

/* Inserts: a batch of rows is one block of ClickHouse's format Native, compressed by zstd. */

#define LEVEL 1
#define METHOD_ZSTD 0x90
#define CHECKSUM_LEN 16 /* a hash that we do not make: by the settings, the server does not check it */

static int add_native_text(struct row_bytes *bytes, const char *text)
{
	return row_bytes_add_length(bytes, strlen(text)) ?: row_bytes_add(bytes, text, strlen(text));
}

/* The bytes before a column's values; before the first column, the numbers of columns and rows, too. */
static int make_column_head(const struct row_batch *batch, size_t at, struct row_bytes *head)
{
	static const char *const type[] = { [ROW_INT] = "Int64", [ROW_REAL] = "Float64", [ROW_TEXT] = "String" };
	const struct row_column *column = &batch->table->column[at];
	int err = 0;

	head->byte_nr = 0;
	if (!at)
		err = row_bytes_add_length(head, batch->table->column_nr) ?: row_bytes_add_length(head, batch->row_nr);
	return err ?: add_native_text(head, column->name) ?: add_native_text(head, type[column->type]);
}

static int pack_bytes(ZSTD_CCtx *zstd, const struct row_bytes *bytes, ZSTD_EndDirective how, struct row_bytes *packed)
{
	ZSTD_inBuffer in = { bytes->byte, bytes->byte_nr, 0 };
	ZSTD_outBuffer out = { packed->byte, packed->byte_alloc, packed->byte_nr };
	size_t left = ZSTD_compressStream2(zstd, &out, &in, how);

	packed->byte_nr = out.pos;
	return ZSTD_isError(left) || in.pos < in.size || (how == ZSTD_e_end && left) ? -ENOMEM : 0;
}

static int pack_columns(ZSTD_CCtx *zstd, const struct row_batch *batch, struct row_bytes *head, uint64_t *ret_len,
			struct row_bytes *packed)
{
	static const struct row_bytes nothing;
	int err = 0;

	for (size_t i = 0; i < batch->table->column_nr && !err; i++) {
		err = make_column_head(batch, i, head) ?: pack_bytes(zstd, head, ZSTD_e_continue, packed) ?:
		      pack_bytes(zstd, &batch->column[i], ZSTD_e_continue, packed);
		*ret_len += head->byte_nr + batch->column[i].byte_nr;
	}
	return err ?: pack_bytes(zstd, &nothing, ZSTD_e_end, packed);
}

static uint64_t most_of_block(const struct row_batch *batch)
{
	uint64_t len = 4096;

	for (size_t i = 0; i < batch->table->column_nr; i++)
		len += batch->column[i].byte_nr;
	return ZSTD_compressBound(len) + 4096;
}

/* A compressed block: its checksum; then method, length from here on, and length of the content; then zstd's frame. */
int native_block_make(const struct row_batch *batch, struct row_bytes *head, struct row_bytes *packed)
{
	struct {
		uint8_t checksum[CHECKSUM_LEN], method;
		uint32_t packed_len, len;
	} __attribute__((packed)) mark = { .method = METHOD_ZSTD };
	ZSTD_CCtx *zstd = ZSTD_createCCtx();
	uint64_t len = 0;
	int err = zstd ? array_reserve(&packed->byte, &packed->byte_alloc, sizeof(mark) + most_of_block(batch)) : -ENOMEM;

	packed->byte_nr = sizeof(mark);
	if (!err && ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, LEVEL)))
		err = -ENOMEM;
	err = err ?: pack_columns(zstd, batch, head, &len, packed);
	ZSTD_freeCCtx(zstd);
	if (err || len > UINT32_MAX || packed->byte_nr > UINT32_MAX)
		return err ?: -E2BIG;
	mark.len = len;
	mark.packed_len = packed->byte_nr - CHECKSUM_LEN;
	memcpy(packed->byte, &mark, sizeof(mark));
	return 0;
}

static char *make_insert_parameters(const struct row_table *table)
{
	char *sql = NULL, *escaped, *parameters = NULL;

	if (asprintf(&sql, "INSERT INTO %s FORMAT Native", table->name) < 0)
		return NULL;
	escaped = cluster_escape(sql);
	free(sql);
	if (escaped && asprintf(&parameters, "&decompress=1&query=%s", escaped) < 0)
		parameters = NULL;
	free(escaped);
	return parameters;
}

static int insert_into_cluster(struct row_sink *sink, const struct row_batch *batch, struct reason *why)
{
	struct cluster *cluster = (struct cluster *)sink;
	char *parameters = make_insert_parameters(batch->table);
	int err = parameters ? native_block_make(batch, &cluster->head, &cluster->packed) : -ENOMEM;
	const struct cluster_request request = {
		.parameters = parameters, .is_in_database = true, .content_type = "Content-Type: application/octet-stream",
		.body = cluster->packed.byte, .body_len = cluster->packed.byte_nr,
	};

	err = err ? reason_set(why, err, "%s", err == -E2BIG ? "too many bytes in one batch" : "out of memory") : cluster_send(cluster, &request, why);
	free(parameters);
	return err;
}

/* Rows go to the table of the same name. */
static struct row_sink *cluster__sink(struct cluster *cluster)
{
	cluster->sink.insert = insert_into_cluster;
	return &cluster->sink;
}

/* ---- what the cluster has ------------------------------------------------------------------------------------- */

static int take_known(void *known, const union row_value *value)
{
	const struct known_row row = { .hash = { value[0].number, value[1].number } };

	return row.hash.id <= 0 || known_find(known, row.hash.id, 0) ? 0 : known_add(known, &row);
}

static int ask_known(struct cluster *cluster, const char *sql, const struct cluster_table *numbers,
		     struct known *known, struct reason *why)
{
	const struct cluster_query query = {
		.sql = sql, .table = numbers, .table_nr = numbers != NULL, .types = "ii", .row = take_known, .what = known,
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

/* A cluster may have far more names than one host, so it is asked about the catalogue's names, and one of our own. */
static int ask_own_names(struct cluster *cluster, const struct cluster_push *job, const char *own, int64_t more,
			 const char *sql, struct known *known, struct reason *why)
{
	struct own_ids ids = {};
	int err = list_own_ids(job->catalogue, own, &ids, why);

	if (!err && array_push(&ids, id, more))
		err = reason_set(why, -ENOMEM, "out of memory");
	err = err ?: ask_known(cluster, sql, &(struct cluster_table){ .number = ids.id, .nr = ids.id_nr }, known, why);
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

	err = err ?: row_export_snapshots(&snapshots, cluster__sink(cluster), &sent, why);
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

/* ---- opening and closing a batch ---- */

struct push_batch {
	struct cluster_options options;
	struct cluster *cluster;
	size_t top;
};

bool cluster_url_is_plain(const char *url)
{
	const char *host = strstr(url, "://"), *path = host ? strchr(host + strlen("://"), '/') : NULL;

	return host && (!path || !path[strspn(path, "/")]);
}

static struct push_batch *open_batch(const struct push_endpoint_options *options, struct reason *why)
{
	struct push_batch *batch = calloc(1, sizeof(*batch));
	int err;

	if (!batch) {
		reason_set(why, -ENOMEM, "out of memory");
		return NULL;
	}
	batch->top = options->top;
	batch->options = (struct cluster_options){
		.url = options->url, .database = options->database ?: CLUSTER_DATABASE,
		.credentials = options->credentials, .ca_file = options->ca_file, .timeout_ns = options->timeout_ns,
	};
	err = cluster_options_check(&batch->options, why) ?: cluster__new(&batch->options, &batch->cluster, why);
	if (!err)
		return batch;
	free(batch);
	return NULL;
}

static void close_batch(struct push_batch *batch)
{
	cluster__free(batch->cluster);
	free(batch);
}

static void set_batch_timeout(struct push_batch *batch, uint64_t timeout_ns)
{
	cluster__set_timeout(batch->cluster, timeout_ns);
}

/* ---- one batch ------------------------------------------------------------------------------------------------ */

static const enum push_result result_of_problem[] = {
	[INDEX_DAMAGED] = PUSH_REJECTED,
	[INDEX_FOREIGN] = PUSH_REJECTED,
	[INDEX_DUPLICATE] = PUSH_DONE, /* the other file is pushed */
	[INDEX_UNREADABLE] = PUSH_LATER,
};

struct push_files {
	struct push_file *file;
	char **path; /* of each file, as an index names it; NULL: the file is gone, or cannot be reached */
	size_t file_nr;
};

static struct push_file *find_push_file(const struct push_files *files, const char *path)
{
	for (size_t i = 0; i < files->file_nr; i++)
		if (files->path[i] && !strcmp(files->path[i], path))
			return &files->file[i];
	return NULL;
}

static void note_index_problem(void *files_, enum index_problem problem, const char *path, const char *line)
{
	struct push_file *file = find_push_file(files_, path);

	if (!file)
		return;
	file->result = result_of_problem[problem];
	reason_set(&file->why, 0, "%s", line);
}

/* A file that was removed meanwhile must not hold up the others. */
static int resolve_push_files(struct push_files *files, struct reason *why)
{
	files->path = calloc(files->file_nr, sizeof(*files->path));
	if (!files->path)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < files->file_nr; i++) {
		files->path[i] = realpath(files->file[i].path, NULL);
		if (files->path[i])
			continue;
		files->file[i].result = PUSH_LATER;
		reason_set(&files->file[i].why, 0, "%s", strerror(errno));
	}
	return 0;
}

static void release_push_files(struct push_files *files)
{
	for (size_t i = 0; files->path && i < files->file_nr; i++)
		free(files->path[i]);
	free(files->path);
}

/* An index says nothing of a file that was removed before it was read: the catalogue does not have it. */
static int note_unindexed_files(struct catalogue *catalogue, struct push_files *files, struct reason *why)
{
	bool *is_indexed = calloc(files->file_nr, sizeof(*is_indexed));
	sqlite3_stmt *row;
	int more, err = is_indexed ? sql_prepare(catalogue, "SELECT path FROM file", &row, why) :
				     reason_set(why, -ENOMEM, "out of memory");

	if (err) {
		free(is_indexed);
		return err;
	}
	while ((more = sql_step(catalogue, row, why)) > 0) {
		const struct push_file *file = find_push_file(files, sql_text(row, 0));

		if (file)
			is_indexed[file - files->file] = true;
	}
	sqlite3_finalize(row);
	for (size_t i = 0; i < files->file_nr && !more; i++) {
		if (is_indexed[i] || files->file[i].result)
			continue;
		files->file[i].result = PUSH_LATER;
		reason_set(&files->file[i].why, 0, "%s", strerror(ENOENT));
	}
	free(is_indexed);
	return more;
}

static int index_push_files(struct catalogue *catalogue, struct push_files *files, struct reason *why)
{
	const struct index_events events = { .problem = note_index_problem, .what = files };
	const char **path = calloc(files->file_nr, sizeof(*path));
	struct index_sum sum;
	size_t nr = 0;
	int err;

	if (!path)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < files->file_nr; i++)
		if (files->path[i])
			path[nr++] = files->path[i];
	err = fleet_index(catalogue, path, nr, &events, &sum, why) ?: note_unindexed_files(catalogue, files, why);
	free(path);
	return err;
}

static int push_catalogue(struct push_batch *batch, struct catalogue *catalogue, struct reason *why)
{
	struct fleet_facts facts = {};
	struct cohort cohort = {};
	const struct cluster_push job = { catalogue, &facts, &cohort, batch->top };
	struct cluster_pushed pushed;
	int err = catalogue__facts(catalogue, &facts, why);

	if (!err && cohort_choose(&facts, NULL, 0, COHORT_WITH_PARTS, &cohort))
		err = reason_set(why, -ENOMEM, "out of memory");
	if (!err && cohort.snapshot_nr)
		err = cluster_schema_check(batch->cluster, why) ?: cluster_push(batch->cluster, &job, &pushed, why);
	cohort_release(&cohort);
	fleet_facts_release(&facts);
	return err;
}

/* Any failure is the server's or this machine's: the files wait. */
static enum push_result push_files_to_cluster(struct push_batch *batch, struct push_file *file, size_t nr,
					      struct reason *why)
{
	struct push_files files = { .file = file, .file_nr = nr };
	struct catalogue *catalogue = NULL;
	int err = catalogue__make_in_memory("files", &catalogue, why) ?: resolve_push_files(&files, why);

	err = err ?: catalogue__seal(catalogue, why) ?: index_push_files(catalogue, &files, why) ?:
		     push_catalogue(batch, catalogue, why);
	catalogue__close(catalogue);
	release_push_files(&files);
	if (err == -EPROTO) {
		struct reason line = *why;

		reason_set(why, err, "%s; the URL of a Pyroscope ends with /ingest", line.text);
	}
	return err ? PUSH_FAILED : PUSH_DONE;
}

const struct push_batch_protocol cluster_batch_protocol = {
	.open = open_batch,
	.push = push_files_to_cluster,
	.set_timeout = set_batch_timeout,
	.close = close_batch,
};
