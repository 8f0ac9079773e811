// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "fleet/catalogue.h"
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
	size_t file_nr;
};

static void note_index_problem(void *files_, enum index_problem problem, const char *path, const char *line)
{
	struct push_files *files = files_;

	for (size_t i = 0; i < files->file_nr; i++) {
		if (strcmp(files->file[i].path, path))
			continue;
		files->file[i].result = result_of_problem[problem];
		reason_set(&files->file[i].why, 0, "%s", line);
	}
}

static int index_push_files(struct catalogue *catalogue, struct push_files *files, struct reason *why)
{
	const struct index_events events = { .problem = note_index_problem, .what = files };
	const char **path = calloc(files->file_nr, sizeof(*path));
	struct index_sum sum;
	int err;

	if (!path)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < files->file_nr; i++)
		path[i] = files->file[i].path;
	err = fleet_index(catalogue, path, files->file_nr, &events, &sum, why);
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
	struct push_files files = { file, nr };
	struct catalogue *catalogue = NULL;
	int err = catalogue__make_in_memory("files", &catalogue, why);

	if (!err)
		err = catalogue__seal(catalogue, why) ?: index_push_files(catalogue, &files, why) ?:
		      push_catalogue(batch, catalogue, why);
	catalogue__close(catalogue);
	return err ? PUSH_FAILED : PUSH_DONE;
}

const struct push_batch_protocol cluster_batch_protocol = {
	.open = open_batch,
	.push = push_files_to_cluster,
	.set_timeout = set_batch_timeout,
	.close = close_batch,
};
