// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What became of processes: of one that is killed with its host, or calls exec, no snapshot says that it ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/catalogue_private.h"

/* Of each process its last snapshot. */
struct endings {
	struct fleet_facts *facts;
	struct fleet_snapshot **last;
	struct fleet_snapshot **newest; /* of each host, among those that say of which boot they are */
};

static int compare(int64_t left, int64_t right)
{
	return (left > right) - (left < right);
}

/* The programs of one process, one after another. */
static int compare_tasks(const struct fleet_snapshot *a, const struct fleet_snapshot *b)
{
	return compare(a->host_nr, b->host_nr) ?: compare(a->pid, b->pid) ?:
	       compare(a->start_ticks, b->start_ticks) ?: strcmp(a->boot_id, b->boot_id);
}

static int by_task(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(struct fleet_snapshot *const *)right;

	return compare_tasks(a, b) ?: compare(a->exec_count, b->exec_count);
}

static void find_last(struct endings *endings)
{
	struct fleet_facts *facts = endings->facts;

	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		struct fleet_snapshot *snapshot = &facts->snapshot[i];
		struct fleet_snapshot **newest = &endings->newest[snapshot->host_nr];

		endings->last[snapshot->process] = snapshot;
		if (*snapshot->boot_id && (!*newest || snapshot->time_ns > (*newest)->time_ns))
			*newest = snapshot;
	}
}

static const char *ending_of(const struct endings *endings, size_t at)
{
	const struct fleet_snapshot *last = endings->last[at];
	const struct fleet_snapshot *next = at + 1 < endings->facts->process_nr ? endings->last[at + 1] : NULL;
	const struct fleet_snapshot *newest = endings->newest[last->host_nr];

	if (*last->ending && strcmp(last->ending, ENDING_RUNNING))
		return last->ending;
	if (next && last->start_ticks && !compare_tasks(last, next) && last->exec_count < next->exec_count)
		return REPLACED_BY_EXEC;
	if (*last->boot_id && strcmp(last->boot_id, newest->boot_id))
		return GONE_WITH_BOOT;
	return last->ending;
}

/* From the last snapshot of a process to those before it. */
static void spread_endings(struct fleet_facts *facts)
{
	for (size_t i = facts->snapshot_nr; i-- > 1;)
		if (facts->snapshot[i - 1].process == facts->snapshot[i].process)
			facts->snapshot[i - 1].ending = facts->snapshot[i].ending;
}

int fleet_endings_find(struct fleet_facts *facts)
{
	struct endings endings = {
		.facts = facts,
		.last = calloc(facts->process_nr + 1ull, sizeof(*endings.last)),
		.newest = calloc(facts->host_nr + 1ull, sizeof(*endings.newest)),
	};
	int err = endings.last && endings.newest ? 0 : -ENOMEM;

	if (!err) {
		find_last(&endings);
		qsort(endings.last, facts->process_nr, sizeof(*endings.last), by_task);
		for (size_t i = 0; i < facts->process_nr; i++)
			endings.last[i]->ending = ending_of(&endings, i);
		spread_endings(facts);
	}
	free(endings.last);
	free(endings.newest);
	return err;
}
