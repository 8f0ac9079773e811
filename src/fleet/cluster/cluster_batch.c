// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/catalogue_private.h"
#include "fleet/cluster/cluster_push.h"
#include "fleet/cluster/cluster_schema.h"
#include "fleet/index.h"
#include "fleet/selection.h"

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

	if (!err)
		err = catalogue__seal(catalogue, why) ?: index_push_files(catalogue, &files, why) ?:
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
