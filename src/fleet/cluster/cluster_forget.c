// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/cluster/cluster_forget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"

#define UPLOADS_A_STATEMENT 10000 /* 200 KB of text */
#define LOOK_NS 50000000	  /* between two looks whether servers are done */

struct forgetting {
	const struct cluster_forget *job;
	int64_t *upload;
	size_t upload_nr, upload_alloc;
	const char *prefix; /* of the tables on each server */
};

/* ---- questions ------------------------------------------------------------------------------------------------ */

static int take_upload(void *forgetting_, const union row_value *value)
{
	struct forgetting *forgetting = forgetting_;

	return array_push(forgetting, upload, value[0].number);
}

static int list_all_uploads(struct forgetting *forgetting, struct reason *why)
{
	const struct cohort *cohort = forgetting->job->cohort;
	int64_t *snapshot = calloc(cohort->snapshot_nr + 1, sizeof(*snapshot));
	const struct cluster_table numbers = { .number = snapshot, .nr = cohort->snapshot_nr };
	const struct cluster_query query = {
		.sql = "SELECT DISTINCT upload_id FROM snapshot WHERE snapshot_id IN (SELECT chosen_id FROM chosen)",
		.table = &numbers, .table_nr = 1, .types = "i", .row = take_upload, .what = forgetting,
	};
	int err;

	if (!snapshot)
		return reason_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		snapshot[i] = cohort->snapshot[i]->snapshot_id;
	err = cluster__ask(forgetting->job->server[0], &query, why);
	free(snapshot);
	return err;
}

/* Adds the number of the chosen rows in a table. */
static int count_chosen(const struct forgetting *forgetting, struct cluster *server, const char *prefix,
			const char *table, int64_t *number, struct reason *why)
{
	const struct cluster_table numbers = { .number = forgetting->upload, .nr = forgetting->upload_nr };
	char sql[160];

	snprintf(sql, sizeof(sql), "SELECT toInt64(count()) FROM %s%s WHERE upload_id IN (SELECT chosen_id FROM chosen)", prefix,
		 table);
	return cluster__ask_number(server, sql, &numbers, number, why);
}

/* ---- whether these are all servers ---------------------------------------------------------------------------- */

static int find_prefix(struct forgetting *forgetting, struct reason *why)
{
	int64_t nr = 0;
	int err = cluster__ask_number(forgetting->job->server[0],
				      "SELECT toInt64(count()) FROM system.tables WHERE database = currentDatabase()"
				      " AND name = 'local_snapshot'", NULL, &nr, why);

	forgetting->prefix = nr ? "local_" : "";
	return err;
}

static int check_server_rows(const struct forgetting *forgetting, const char *table, struct reason *why)
{
	const struct cluster_forget *job = forgetting->job;
	int64_t all = 0, found = 0;
	int err = count_chosen(forgetting, job->server[0], "", table, &all, why);

	for (size_t i = 0; i < job->server_nr && !err; i++)
		err = count_chosen(forgetting, job->server[i], forgetting->prefix, table, &found, why);
	if (err || found == all)
		return err;
	return reason_set(why, -EINVAL, "%s: the cluster has %" PRId64 " rows of them, and the servers of --from have %" PRId64
			  ": --from has to name each server once", cluster__options(job->server[0])->url, all, found);
}

/* ---- removing ------------------------------------------------------------------------------------------------- */

static char *make_removal(const struct forgetting *forgetting, const char *table, size_t first)
{
	size_t end = first + UPLOADS_A_STATEMENT < forgetting->upload_nr ? first + UPLOADS_A_STATEMENT : forgetting->upload_nr;
	char *sql = NULL;
	size_t len;
	FILE *out = open_memstream(&sql, &len);

	if (!out)
		return NULL;
	fprintf(out, "ALTER TABLE %s%s DELETE WHERE upload_id IN (", forgetting->prefix, table);
	for (size_t i = first; i < end; i++)
		fprintf(out, "%s%" PRId64, i > first ? "," : "", forgetting->upload[i]);
	putc(')', out);
	if (!fclose(out))
		return sql;
	free(sql);
	return NULL;
}

/* The server notes it, and does it later. */
static int order_removal(const struct forgetting *forgetting, const char *table, struct reason *why)
{
	const struct cluster_forget *job = forgetting->job;
	int err = 0;

	for (size_t first = 0; first < forgetting->upload_nr && !err; first += UPLOADS_A_STATEMENT) {
		char *sql = make_removal(forgetting, table, first);

		if (!sql)
			err = reason_set(why, -ENOMEM, "out of memory");
		for (size_t i = 0; i < job->server_nr && !err; i++)
			err = cluster__run(job->server[i], sql, true, why);
		free(sql);
	}
	return err;
}

static int wait_for_server(struct cluster *server, struct reason *why)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	uint64_t begun = monotonic_now_ns(), limit = cluster__options(server)->timeout_ns ?: CLUSTER_TIMEOUT_NS;
	int64_t waiting = 1;
	int err = 0;

	while (!err && waiting) {
		waiting = 0;
		err = cluster__ask_number(server, "SELECT toInt64(count()) FROM system.mutations"
					  " WHERE database = currentDatabase() AND NOT is_done", NULL, &waiting, why);
		if (!err && waiting && monotonic_now_ns() - begun > limit)
			err = reason_set(why, -ETIMEDOUT, "%s: it is not done yet, and goes on by itself",
					 cluster__options(server)->url);
		if (!err && waiting)
			nanosleep(&pause, NULL);
	}
	return err;
}

static int remove_from_tables(const struct forgetting *forgetting, const char *const *table, size_t nr, struct reason *why)
{
	const struct cluster_forget *job = forgetting->job;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = order_removal(forgetting, table[i], why);
	for (size_t i = 0; i < job->server_nr && !err; i++)
		err = wait_for_server(job->server[i], why);
	return err;
}

/*
 * A snapshot whose rows vanish before its own row makes an answer an error. If a server needs too long for the first
 * step, it gets the second one, too, since nothing would find these rows again.
 */
static int remove_uploads(const struct forgetting *forgetting, struct reason *why)
{
	static const char *const own[] = { "snapshot" }, *const others[] = { "allocation", "sample", "label", "loss" };
	int err = check_server_rows(forgetting, "snapshot", why) ?: check_server_rows(forgetting, "allocation", why) ?:
		  remove_from_tables(forgetting, own, ARRAY_SIZE(own), why);

	if (!err || err == -ETIMEDOUT)
		err = remove_from_tables(forgetting, others, ARRAY_SIZE(others), why) ?: err;
	return err;
}

int cluster_forget(const struct cluster_forget *job, struct reason *why)
{
	struct forgetting forgetting = { .job = job };
	int err = list_all_uploads(&forgetting, why) ?: find_prefix(&forgetting, why);

	if (!err && forgetting.upload_nr)
		err = remove_uploads(&forgetting, why);
	free(forgetting.upload);
	return err;
}
