// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Reads the facts of all snapshots into memory: some hundred bytes for each snapshot, and each text once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"

/* The pool moves while it grows. Until it is complete, a text is an id of the pool. */
enum { PATH = FLEET_TEXT_NR, TEXT_NR };

struct raw {
	struct fleet_snapshot snapshot;
	int64_t number;
	uint32_t text[TEXT_NR];
};

struct raw_pair {
	uint32_t name, value;
};

struct gathering {
	struct catalogue *catalogue;
	struct strpool pool;
	struct raw *raw;
	size_t raw_nr, raw_alloc;
	struct raw_pair *label;
	size_t label_nr, label_alloc;
	struct raw_loss {
		uint32_t name;
		uint64_t value;
	} *loss;
	size_t loss_nr, loss_alloc;
};

static int gather_text(struct gathering *g, sqlite3_stmt *row, int column, uint32_t *ret)
{
	const char *text = sql_text(row, column);

	return strpool_add(&g->pool, text, strlen(text), ret);
}

/* Calls add() for each row of the select. */
static int gather_each_row(struct gathering *g, const char *sql, int (*add)(struct gathering *g, sqlite3_stmt *row),
			   struct reason *why)
{
	sqlite3_stmt *statement;
	int more, err = sql_prepare(g->catalogue, sql, &statement, why);

	if (err)
		return err;
	while ((more = sql_step(g->catalogue, statement, why)) > 0 && !err)
		err = add(g, statement);
	sqlite3_finalize(statement);
	if (more < 0)
		return more;
	if (err == -EBADMSG)
		return catalogue_report_damage(g->catalogue, why, "a row belongs to a snapshot that is not there");
	return err ? reason_set(why, err, "%s: %s", g->catalogue->path, strerror(-err)) : 0;
}

/* ---- snapshots -------------------------------------------------------------------------------------- */

static const char select_snapshots[] =
	"SELECT s.number, snapshot_id, process_id, time_ns, pid, s.size, count, row_nr, traceback_limit,"
	" start_ticks, exec_count, monotonic_ns, recording_ns, gap_size, gap_count, is_sampled, is_part,"
	" sample_bytes_most, interval_ns, "
#define X(name) #name ", "
	FLEET_TEXTS(X)
#undef X
	"path FROM snapshot AS s JOIN file AS f ON f.number = s.file ORDER BY s.number";

enum { FIRST_TEXT = 19 };

static int gather_snapshot(struct gathering *g, sqlite3_stmt *row)
{
	struct raw raw = {
		.number = sqlite3_column_int64(row, 0),
		.snapshot = {
			.snapshot_id = sqlite3_column_int64(row, 1),
			.process_id = sqlite3_column_int64(row, 2),
			.time_ns = sqlite3_column_int64(row, 3),
			.pid = sqlite3_column_int64(row, 4),
			.size = sqlite3_column_int64(row, 5),
			.count = sqlite3_column_int64(row, 6),
			.row_nr = sqlite3_column_int64(row, 7),
			.traceback_limit = sqlite3_column_int64(row, 8),
			.start_ticks = sqlite3_column_int64(row, 9),
			.exec_count = sqlite3_column_int64(row, 10),
			.monotonic_ns = sqlite3_column_int64(row, 11),
			.recording_ns = sqlite3_column_int64(row, 12),
			.gap_blocks.size = sqlite3_column_int64(row, 13),
			.gap_blocks.count = sqlite3_column_int64(row, 14),
			.is_sampled = sqlite3_column_int(row, 15),
			.is_open = sqlite3_column_int(row, 15) > 1,
			.is_part = sqlite3_column_int(row, 16),
			.sample_bytes_most = sqlite3_column_int64(row, 17),
			.interval_ns = sqlite3_column_int64(row, 18),
		},
	};
	int err = 0;

	for (int i = 0; i < TEXT_NR && !err; i++)
		err = gather_text(g, row, FIRST_TEXT + i, &raw.text[i]);
	return err ?: array_push(g, raw, raw);
}

/* ---- labels and losses: ordered by snapshot number, as the snapshots are ------------------------- */

static int compare_raw_number(const void *number, const void *raw)
{
	int64_t left = *(const int64_t *)number, right = ((const struct raw *)raw)->number;

	return (left > right) - (left < right);
}

static struct fleet_snapshot *find_raw_snapshot(struct gathering *g, sqlite3_stmt *row)
{
	int64_t number = sqlite3_column_int64(row, 0);
	struct raw *raw = g->raw_nr ? bsearch(&number, g->raw, g->raw_nr, sizeof(*g->raw),
					      compare_raw_number) : NULL;

	return raw ? &raw->snapshot : NULL;
}

static int gather_label(struct gathering *g, sqlite3_stmt *row)
{
	struct fleet_snapshot *snapshot = find_raw_snapshot(g, row);
	struct raw_pair pair;
	int err;

	if (!snapshot)
		return -EBADMSG;
	err = gather_text(g, row, 1, &pair.name) ?: gather_text(g, row, 2, &pair.value);
	if (!err && !snapshot->label_nr++)
		snapshot->label = g->label_nr;
	return err ?: array_push(g, label, pair);
}

static int gather_loss(struct gathering *g, sqlite3_stmt *row)
{
	struct fleet_snapshot *snapshot = find_raw_snapshot(g, row);
	struct raw_loss loss = { .value = sqlite3_column_int64(row, 2) };
	int err;

	if (!snapshot)
		return -EBADMSG;
	err = gather_text(g, row, 1, &loss.name);
	if (!err && !snapshot->loss_nr++)
		snapshot->loss = g->loss_nr;
	return err ?: array_push(g, loss, loss);
}

/* ---- the pool is complete ---------------------------------------------------------------------------- */

static void set_texts(const struct gathering *g, const struct raw *raw, struct fleet_snapshot *to)
{
	*to = raw->snapshot;
#define X(name) to->name = strpool_get(&g->pool, raw->text[FLEET_TEXT_##name]);
	FLEET_TEXTS(X)
#undef X
	to->path = strpool_get(&g->pool, raw->text[PATH]);
	to->own_ending = to->ending;
}

static int copy_facts(const struct gathering *g, struct fleet_facts *facts)
{
	facts->snapshot = calloc(g->raw_nr ?: 1, sizeof(*facts->snapshot));
	facts->label = calloc(g->label_nr ?: 1, sizeof(*facts->label));
	facts->loss = calloc(g->loss_nr ?: 1, sizeof(*facts->loss));
	if (!facts->snapshot || !facts->label || !facts->loss)
		return -ENOMEM;
	facts->snapshot_nr = g->raw_nr;
	facts->label_nr = g->label_nr;
	facts->loss_nr = g->loss_nr;
	for (size_t i = 0; i < g->raw_nr; i++)
		set_texts(g, &g->raw[i], &facts->snapshot[i]);
	for (size_t i = 0; i < g->label_nr; i++)
		facts->label[i] = (struct fleet_pair){ strpool_get(&g->pool, g->label[i].name),
						       strpool_get(&g->pool, g->label[i].value) };
	for (size_t i = 0; i < g->loss_nr; i++)
		facts->loss[i] = (struct fleet_loss){ strpool_get(&g->pool, g->loss[i].name),
						      g->loss[i].value };
	return 0;
}

/* ---- in order ------------------------------------------------------------------------------------------ */

static int compare_int64(int64_t left, int64_t right)
{
	return (left > right) - (left < right);
}

/* Equal hosts share one string, so that pointers can be compared first. */
static int compare_hosts(const struct fleet_snapshot *left, const struct fleet_snapshot *right)
{
	return left->host == right->host ? 0 : strcmp(left->host, right->host);
}

static int by_process(const void *left_, const void *right_)
{
	const struct fleet_snapshot *left = left_, *right = right_;

	return compare_hosts(left, right) ?: compare_int64(left->process_id, right->process_id);
}

static int compare_clocks(const struct fleet_snapshot *left, const struct fleet_snapshot *right)
{
	return compare_int64(left->clock_ns, right->clock_ns) ?: compare_int64(left->time_ns, right->time_ns) ?:
	       right->is_part - left->is_part ?: compare_int64(left->snapshot_id, right->snapshot_id);
}

bool fleet_snapshot_is_later(const struct fleet_snapshot *one, const struct fleet_snapshot *other)
{
	return compare_clocks(one, other) > 0;
}

static int compare_recordings(const struct fleet_snapshot *left, const struct fleet_snapshot *right)
{
	return compare_int64(left->process, right->process) ?: compare_int64(left->recording_ns, right->recording_ns);
}

static int by_recording(const void *left, const void *right)
{
	return compare_recordings(left, right) ?: compare_clocks(left, right);
}

/* Numbers hosts in the order of their names, and the processes of a host one after another. */
static void number_snapshots(struct fleet_facts *facts)
{
	struct fleet_snapshot *snapshot = facts->snapshot;
	size_t nr = facts->snapshot_nr;

	qsort(snapshot, nr, sizeof(*snapshot), by_process);
	for (size_t i = 0; i < nr; i++) {
		bool is_new_host = !i || compare_hosts(&snapshot[i], &snapshot[i - 1]);

		facts->host_nr += is_new_host;
		facts->process_nr += is_new_host || snapshot[i].process_id != snapshot[i - 1].process_id;
		snapshot[i].host_nr = facts->host_nr - 1;
		snapshot[i].process = facts->process_nr - 1;
	}
}

/* All snapshots of a process are timed by one clock. */
static void set_clocks(struct fleet_snapshot *first, const struct fleet_snapshot *end)
{
	bool is_monotonic = true;

	for (const struct fleet_snapshot *at = first; at < end; at++)
		is_monotonic &= at->monotonic_ns > 0;
	for (struct fleet_snapshot *at = first; at < end; at++)
		at->clock_ns = is_monotonic ? at->monotonic_ns : at->time_ns;
}

static void order_snapshots(struct fleet_facts *facts)
{
	struct fleet_snapshot *first = facts->snapshot, *end = first + facts->snapshot_nr;

	for (struct fleet_snapshot *at = first; at < end; at++) {
		if (at + 1 < end && at[1].process == at->process)
			continue;
		set_clocks(first, at + 1);
		first = at + 1;
	}
	first = facts->snapshot;
	qsort(first, facts->snapshot_nr, sizeof(*first), by_recording);
	for (struct fleet_snapshot *at = first; at < end; at++) {
		facts->recording_nr += at == first || compare_recordings(at, at - 1);
		at->recording = facts->recording_nr - 1;
	}
}

static int count_origins(struct gathering *g, struct fleet_facts *facts, struct reason *why)
{
	int64_t nr = 0;
	int err = sql_number(g->catalogue, "SELECT coalesce(max(number) + 1, 0) FROM origin", &nr, why);

	if (!err && (nr < 0 || nr > UINT32_MAX))
		err = catalogue_report_damage(g->catalogue, why, "an origin out of range");
	facts->origin_nr = nr;
	return err;
}

static int gather_facts(struct gathering *g, struct fleet_facts *facts, struct reason *why)
{
	int err = gather_each_row(g, select_snapshots, gather_snapshot, why) ?:
		  gather_each_row(g, "SELECT snapshot, name, value FROM label ORDER BY 1, 2", gather_label, why) ?:
		  gather_each_row(g, "SELECT snapshot, name, value FROM loss ORDER BY 1, 2", gather_loss, why) ?:
		  count_origins(g, facts, why);

	if (!err && copy_facts(g, facts))
		err = reason_set(why, -ENOMEM, "%s: %s", g->catalogue->path, strerror(ENOMEM));
	if (err)
		return err;
	number_snapshots(facts);
	order_snapshots(facts);
	if (fleet_set_endings(facts))
		return reason_set(why, -ENOMEM, "%s: %s", g->catalogue->path, strerror(ENOMEM));
	facts->memory = g->pool.bytes;
	g->pool.bytes = NULL;
	return 0;
}

int catalogue__facts(struct catalogue *catalogue, struct fleet_facts *ret, struct reason *why)
{
	struct gathering g = { .catalogue = catalogue };
	struct fleet_facts facts = {};
	int err = gather_facts(&g, &facts, why);

	if (err)
		fleet_facts_release(&facts);
	else
		*ret = facts;
	strpool_release(&g.pool);
	free(g.raw);
	free(g.label);
	free(g.loss);
	return err;
}

void fleet_facts_release(struct fleet_facts *facts)
{
	free(facts->snapshot);
	free(facts->label);
	free(facts->loss);
	free(facts->memory);
	*facts = (struct fleet_facts){};
}
