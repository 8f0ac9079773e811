// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds what became of processes. No snapshot tells the end of a process that was killed with its host, that called
 * exec, or that ended while nothing recorded it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/catalogue_private.h"

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

int fleet_set_endings(struct fleet_facts *facts)
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
