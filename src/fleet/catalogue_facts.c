// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts of snapshots in memory: some hundred bytes for each snapshot, and each text once. */
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

struct facts_builder {
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

struct facts_builder *facts_builder__new(void)
{
	return calloc(1, sizeof(struct facts_builder));
}

void facts_builder__free(struct facts_builder *b)
{
	if (!b)
		return;
	strpool_release(&b->pool);
	free(b->raw);
	free(b->label);
	free(b->loss);
	free(b);
}

static int pool_text(struct facts_builder *b, const char *text, uint32_t *ret)
{
	return strpool_add(&b->pool, text, strlen(text), ret);
}

/* ---- snapshots, labels and losses: ordered by snapshot number --------------------------------------- */

int facts_builder__snapshot(struct facts_builder *b, int64_t number, const struct fleet_snapshot *snapshot)
{
	struct raw raw = { .number = number, .snapshot = *snapshot };
	int err = 0;

#define X(name) err = err ?: pool_text(b, snapshot->name, &raw.text[FLEET_TEXT_##name]);
	FLEET_TEXTS(X)
#undef X
	err = err ?: pool_text(b, snapshot->path, &raw.text[PATH]);
	return err ?: array_push(b, raw, raw);
}

static int compare_raw_number(const void *number, const void *raw)
{
	int64_t left = *(const int64_t *)number, right = ((const struct raw *)raw)->number;

	return (left > right) - (left < right);
}

static struct fleet_snapshot *find_raw_snapshot(struct facts_builder *b, int64_t number)
{
	struct raw *raw = b->raw_nr ? bsearch(&number, b->raw, b->raw_nr, sizeof(*b->raw), compare_raw_number) : NULL;

	return raw ? &raw->snapshot : NULL;
}

int facts_builder__label(struct facts_builder *b, int64_t number, const char *name, const char *value)
{
	struct fleet_snapshot *snapshot = find_raw_snapshot(b, number);
	struct raw_pair pair;
	int err;

	if (!snapshot)
		return -EBADMSG;
	err = pool_text(b, name, &pair.name) ?: pool_text(b, value, &pair.value);
	if (!err && !snapshot->label_nr++)
		snapshot->label = b->label_nr;
	return err ?: array_push(b, label, pair);
}

int facts_builder__loss(struct facts_builder *b, int64_t number, const char *name, uint64_t value)
{
	struct fleet_snapshot *snapshot = find_raw_snapshot(b, number);
	struct raw_loss loss = { .value = value };
	int err;

	if (!snapshot)
		return -EBADMSG;
	err = pool_text(b, name, &loss.name);
	if (!err && !snapshot->loss_nr++)
		snapshot->loss = b->loss_nr;
	return err ?: array_push(b, loss, loss);
}

/* ---- the pool is complete ---------------------------------------------------------------------------- */

static void set_texts(const struct facts_builder *b, const struct raw *raw, struct fleet_snapshot *to)
{
	*to = raw->snapshot;
#define X(name) to->name = strpool_get(&b->pool, raw->text[FLEET_TEXT_##name]);
	FLEET_TEXTS(X)
#undef X
	to->path = strpool_get(&b->pool, raw->text[PATH]);
	to->own_ending = to->ending;
}

static int copy_facts(const struct facts_builder *b, struct fleet_facts *facts)
{
	facts->snapshot = calloc(b->raw_nr ?: 1, sizeof(*facts->snapshot));
	facts->label = calloc(b->label_nr ?: 1, sizeof(*facts->label));
	facts->loss = calloc(b->loss_nr ?: 1, sizeof(*facts->loss));
	if (!facts->snapshot || !facts->label || !facts->loss)
		return -ENOMEM;
	facts->snapshot_nr = b->raw_nr;
	facts->label_nr = b->label_nr;
	facts->loss_nr = b->loss_nr;
	for (size_t i = 0; i < b->raw_nr; i++)
		set_texts(b, &b->raw[i], &facts->snapshot[i]);
	for (size_t i = 0; i < b->label_nr; i++)
		facts->label[i] = (struct fleet_pair){ strpool_get(&b->pool, b->label[i].name),
						       strpool_get(&b->pool, b->label[i].value) };
	for (size_t i = 0; i < b->loss_nr; i++)
		facts->loss[i] = (struct fleet_loss){ strpool_get(&b->pool, b->loss[i].name), b->loss[i].value };
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

int facts_builder__finish(struct facts_builder *b, struct fleet_facts *ret)
{
	struct fleet_facts facts = {};

	if (copy_facts(b, &facts)) {
		fleet_facts_release(&facts);
		return -ENOMEM;
	}
	number_snapshots(&facts);
	order_snapshots(&facts);
	facts.memory = b->pool.bytes;
	b->pool.bytes = NULL;
	*ret = facts;
	return 0;
}

void fleet_facts_release(struct fleet_facts *facts)
{
	free(facts->snapshot);
	free(facts->label);
	free(facts->loss);
	free(facts->memory);
	*facts = (struct fleet_facts){};
}

/* ---- of a catalogue -------------------------------------------------------------------------------------- */

#define X(name) "s." #name ", "
static const char select_snapshots[] =
	"SELECT s.number, gap_size, gap_count, is_sampled, path, " FLEET_NUMBERS(X) FLEET_TEXTS(X)
	"0 FROM snapshot AS s JOIN file AS f ON f.number = s.file ORDER BY s.number";
#undef X

static int gather_snapshot(struct facts_builder *b, sqlite3_stmt *row)
{
	struct fleet_snapshot snapshot = {
		.gap_blocks = { .size = sqlite3_column_int64(row, 1), .count = sqlite3_column_int64(row, 2) },
		.is_sampled = sqlite3_column_int(row, 3),
		.is_open = sqlite3_column_int(row, 3) > 1,
		.path = sql_text(row, 4),
	};
	int at = 5;

#define X(name) snapshot.name = sqlite3_column_int64(row, at++);
	FLEET_NUMBERS(X)
#undef X
#define X(name) snapshot.name = sql_text(row, at++);
	FLEET_TEXTS(X)
#undef X
	return facts_builder__snapshot(b, sqlite3_column_int64(row, 0), &snapshot);
}

static int gather_label(struct facts_builder *b, sqlite3_stmt *row)
{
	return facts_builder__label(b, sqlite3_column_int64(row, 0), sql_text(row, 1), sql_text(row, 2));
}

static int gather_loss(struct facts_builder *b, sqlite3_stmt *row)
{
	return facts_builder__loss(b, sqlite3_column_int64(row, 0), sql_text(row, 1), sqlite3_column_int64(row, 2));
}

/* Calls add() for each row of the select. */
static int gather_each_row(const struct catalogue *catalogue, struct facts_builder *b, const char *sql,
			   int (*add)(struct facts_builder *b, sqlite3_stmt *row), struct reason *why)
{
	sqlite3_stmt *statement;
	int more, err = sql_prepare(catalogue, sql, &statement, why);

	if (err)
		return err;
	while ((more = sql_step(catalogue, statement, why)) > 0 && !err)
		err = add(b, statement);
	sqlite3_finalize(statement);
	if (more < 0)
		return more;
	if (err == -EBADMSG)
		return catalogue_report_damage(catalogue, why, "something is of a snapshot that is not there");
	return err ? reason_set(why, err, "%s: %s", catalogue->path, strerror(-err)) : 0;
}

static int count_origins(const struct catalogue *catalogue, int64_t *ret_nr, struct reason *why)
{
	int err = sql_number(catalogue, "SELECT coalesce(max(number) + 1, 0) FROM origin", ret_nr, why);

	if (!err && (*ret_nr < 0 || *ret_nr > UINT32_MAX))
		err = catalogue_report_damage(catalogue, why, "an origin out of range");
	return err;
}

static int gather_facts(const struct catalogue *catalogue, struct facts_builder *b, struct fleet_facts *ret,
			struct reason *why)
{
	int64_t origin_nr = 0;
	int err = gather_each_row(catalogue, b, select_snapshots, gather_snapshot, why) ?:
		  gather_each_row(catalogue, b, "SELECT snapshot, name, value FROM label ORDER BY 1, 2", gather_label, why) ?:
		  gather_each_row(catalogue, b, "SELECT snapshot, name, value FROM loss ORDER BY 1, 2", gather_loss, why) ?:
		  count_origins(catalogue, &origin_nr, why);

	if (err)
		return err;
	err = facts_builder__finish(b, ret);
	ret->origin_nr = origin_nr;
	return err || fleet_set_endings(ret) ? reason_set(why, -ENOMEM, "%s: %s", catalogue->path, strerror(ENOMEM)) : 0;
}

int catalogue__facts(struct catalogue *catalogue, struct fleet_facts *ret, struct reason *why)
{
	struct facts_builder *b = facts_builder__new();
	struct fleet_facts facts = {};
	int err = b ? gather_facts(catalogue, b, &facts, why) :
		      reason_set(why, -ENOMEM, "%s: %s", catalogue->path, strerror(ENOMEM));

	if (err)
		fleet_facts_release(&facts);
	else
		*ret = facts;
	facts_builder__free(b);
	return err;
}
