// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts of snapshots in memory: some hundred bytes for each snapshot, and each text once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "base/reason.h"
#include "fleet/catalogue_private.h"

/* ---- how processes ended -------------------------------------------------------------------- */

/*
 * Finds what became of processes. No snapshot has the end of a process that was killed with its host, that called
 * exec, or that ended while nothing recorded it.
 */

#define NO_BOOT UINT32_MAX

struct endings {
	struct fleet_facts *facts;
	struct fleet_snapshot **last; /* the last snapshot of each process, by process number */
	const struct fleet_snapshot **task; /* the same snapshots, ordered by task */
	struct boot *boot;
	uint32_t *boot_of; /* by snapshot: the index of its boot in `boot` */
	int64_t *newest_ns; /* by host: when its newest snapshot was taken */
};

/* One boot of a host, and the time that its snapshots span. */
struct boot {
	uint32_t host_nr;
	int64_t first_ns, last_ns;
	int64_t newest_ns; /* monotonic: of the newest snapshot */
	int64_t recording_ns; /* monotonic: when the newest recording of which all processes were saved began */
	bool is_over; /* a later boot exists, and all snapshots of it are later */
	bool has_twin;
};

static int compare_integers(int64_t left, int64_t right)
{
	return (left > right) - (left < right);
}

/* ---- boots ------------------------------------------------------------------------------------------ */

static int by_boot(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(struct fleet_snapshot *const *)right;

	return compare_integers(a->host_nr, b->host_nr) ?: strcmp(a->boot_id, b->boot_id);
}

static int by_first(const void *left, const void *right)
{
	const struct boot *a = *(struct boot *const *)left, *b = *(struct boot *const *)right;

	return compare_integers(a->host_nr, b->host_nr) ?: compare_integers(a->first_ns, b->first_ns);
}

/* A stop of the recording is the last of its passes. */
static bool has_stopped(const struct fleet_snapshot *snapshot)
{
	return !strcmp(snapshot->trigger, "duration") || !strcmp(snapshot->trigger, "last");
}

/* Whether all processes were saved at that time. */
static bool is_of_pass(const struct fleet_snapshot *snapshot)
{
	return has_stopped(snapshot) || !strcmp(snapshot->trigger, "interval") || !strcmp(snapshot->trigger, "signal");
}

static void boot_add(struct boot *boot, const struct fleet_snapshot *snapshot)
{
	if (snapshot->time_ns < boot->first_ns)
		boot->first_ns = snapshot->time_ns;
	if (snapshot->time_ns > boot->last_ns)
		boot->last_ns = snapshot->time_ns;
	if (snapshot->monotonic_ns > boot->newest_ns)
		boot->newest_ns = snapshot->monotonic_ns;
	if (is_of_pass(snapshot) && snapshot->recording_ns > boot->recording_ns)
		boot->recording_ns = snapshot->recording_ns;
}

/* Takes the snapshots ordered by boot and returns the number of boots. A snapshot without a boot id has no boot. */
static size_t find_boots(struct endings *endings, struct fleet_snapshot *const *order)
{
	struct fleet_facts *facts = endings->facts;
	size_t nr = 0;

	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		uint32_t *boot_of = &endings->boot_of[order[i] - facts->snapshot];

		*boot_of = NO_BOOT;
		if (!*order[i]->boot_id)
			continue;
		if (!i || by_boot(&order[i - 1], &order[i]))
			endings->boot[nr++] = (struct boot){ order[i]->host_nr, INT64_MAX, INT64_MIN, 0, 0 };
		boot_add(&endings->boot[nr - 1], order[i]);
		*boot_of = nr - 1;
	}
	return nr;
}

/*
 * Takes the boots ordered by their first snapshots. Boots that overlap are of two machines with one name, or a clock
 * was set.
 */
static void decide_boot_ends(struct boot *const *order, size_t nr)
{
	struct boot *longest = NULL, *latest = NULL;

	for (size_t i = 0; i < nr; i++) {
		struct boot *boot = order[i];

		if (longest && longest->host_nr == boot->host_nr && boot->first_ns <= longest->last_ns)
			boot->has_twin = longest->has_twin = true;
		if (!longest || longest->host_nr != boot->host_nr || boot->last_ns > longest->last_ns)
			longest = boot;
	}
	for (size_t i = nr; i-- > 0;) {
		if (!latest || latest->host_nr != order[i]->host_nr)
			latest = order[i];
		order[i]->is_over = latest->first_ns > order[i]->last_ns;
	}
}

static int find_all_boots(struct endings *endings)
{
	struct fleet_facts *facts = endings->facts;
	struct fleet_snapshot **order = calloc(facts->snapshot_nr + 1, sizeof(*order));
	struct boot **by_time = calloc(facts->snapshot_nr + 1, sizeof(*by_time));
	int err = order && by_time ? 0 : -ENOMEM;
	size_t nr = 0;

	for (size_t i = 0; i < facts->snapshot_nr && !err; i++)
		order[i] = &facts->snapshot[i];
	if (!err) {
		qsort(order, facts->snapshot_nr, sizeof(*order), by_boot);
		nr = find_boots(endings, order);
		for (size_t i = 0; i < nr; i++)
			by_time[i] = &endings->boot[i];
		qsort(by_time, nr, sizeof(*by_time), by_first);
		decide_boot_ends(by_time, nr);
	}
	free(order);
	free(by_time);
	return err;
}

static const struct boot *boot_of(const struct endings *endings, const struct fleet_snapshot *snapshot)
{
	uint32_t number = endings->boot_of[snapshot - endings->facts->snapshot];

	return number == NO_BOOT ? NULL : &endings->boot[number];
}

/* ---- processes -------------------------------------------------------------------------------------- */

/* A process's programs, one after another, are one task. */
static int compare_tasks(const struct fleet_snapshot *a, const struct fleet_snapshot *b)
{
	return compare_integers(a->host_nr, b->host_nr) ?: compare_integers(a->pid, b->pid) ?:
	       compare_integers(a->start_ticks, b->start_ticks) ?: strcmp(a->boot_id, b->boot_id);
}

static int by_task(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(const struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(const struct fleet_snapshot *const *)right;

	return compare_tasks(a, b) ?: compare_integers(a->exec_count, b->exec_count);
}

static void find_last(struct endings *endings)
{
	struct fleet_facts *facts = endings->facts;

	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		struct fleet_snapshot *snapshot = &facts->snapshot[i];
		struct fleet_snapshot **last = &endings->last[snapshot->process];

		if (!*last || fleet_snapshot_is_later(snapshot, *last))
			*last = snapshot;
		if (snapshot->time_ns > endings->newest_ns[snapshot->host_nr])
			endings->newest_ns[snapshot->host_nr] = snapshot->time_ns;
	}
	for (uint32_t i = 0; i < facts->process_nr; i++)
		endings->task[i] = endings->last[i];
	qsort(endings->task, facts->process_nr, sizeof(*endings->task), by_task);
}

/* Two snapshots were due since; or its recording had stopped before another one of the host began. */
static bool was_not_seen_again(const struct fleet_snapshot *last, const struct boot *boot)
{
	if (last->monotonic_ns <= 0)
		return false;
	return (last->interval_ns > 0 && boot->newest_ns - last->monotonic_ns - last->interval_ns > last->interval_ns) ||
	       (has_stopped(last) && boot->recording_ns > last->monotonic_ns);
}

static const char *ending_of(const struct endings *endings, size_t at)
{
	const struct fleet_snapshot *last = endings->task[at];
	const struct fleet_snapshot *next = at + 1 < endings->facts->process_nr ? endings->task[at + 1] : NULL;
	const struct boot *boot = boot_of(endings, last);

	if (*last->ending && strcmp(last->ending, ENDING_RUNNING))
		return last->ending;
	if (next && last->start_ticks && !compare_tasks(last, next) && last->exec_count < next->exec_count)
		return REPLACED_BY_EXEC;
	if (!boot)
		return last->ending;
	return boot->is_over ? GONE_WITH_BOOT : was_not_seen_again(last, boot) ? NOT_SEEN_AGAIN : last->ending;
}

/* Between boots there is only the wall clock. */
static void set_behind(const struct endings *endings, struct fleet_snapshot *last)
{
	const struct boot *boot = boot_of(endings, last);

	last->behind_ns = boot && !boot->is_over && last->monotonic_ns > 0 ?
			  boot->newest_ns - last->monotonic_ns :
			  (int64_t)((uint64_t)endings->newest_ns[last->host_nr] - (uint64_t)last->time_ns);
}

/* Copies the ending of each process from its last snapshot to all its snapshots. */
static void copy_endings(const struct endings *endings)
{
	struct fleet_facts *facts = endings->facts;

	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		struct fleet_snapshot *snapshot = &facts->snapshot[i];
		const struct boot *boot = boot_of(endings, snapshot);

		snapshot->ending = endings->last[snapshot->process]->ending;
		snapshot->behind_ns = endings->last[snapshot->process]->behind_ns;
		snapshot->has_twin = boot && boot->has_twin;
	}
}

static void find_endings(struct endings *endings)
{
	find_last(endings);
	for (size_t i = 0; i < endings->facts->process_nr; i++)
		set_behind(endings, endings->last[i]);
	for (size_t i = 0; i < endings->facts->process_nr; i++)
		endings->last[endings->task[i]->process]->ending = ending_of(endings, i);
	copy_endings(endings);
}

/* Sets the ending of each process in all its snapshots. The facts must be in order. 0 or -ENOMEM. */
static int fleet_set_endings(struct fleet_facts *facts)
{
	struct endings endings = {
		.facts = facts,
		.last = calloc(facts->process_nr + 1ull, sizeof(*endings.last)),
		.task = calloc(facts->process_nr + 1ull, sizeof(*endings.task)),
		.boot = calloc(facts->snapshot_nr + 1ull, sizeof(*endings.boot)),
		.boot_of = calloc(facts->snapshot_nr + 1ull, sizeof(*endings.boot_of)),
		.newest_ns = calloc(facts->host_nr + 1ull, sizeof(*endings.newest_ns)),
	};
	bool has_room = endings.last && endings.task && endings.boot && endings.boot_of && endings.newest_ns;
	int err = has_room ? find_all_boots(&endings) : -ENOMEM;

	if (!err)
		find_endings(&endings);
	free(endings.last);
	free(endings.task);
	free(endings.boot);
	free(endings.boot_of);
	free(endings.newest_ns);
	return err;
}

/* ---- building facts ------------------------------------------------------------------------- */

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

/* ---- copying texts, after the pool is complete ------------------------------------------------------- */

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

/* ---- sorting ------------------------------------------------------------------------------------------- */

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

/* ---- reading the facts of a catalogue -------------------------------------------------------------------- */

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
		return catalogue_report_damage(catalogue, why, "a row belongs to a snapshot that is not there");
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
