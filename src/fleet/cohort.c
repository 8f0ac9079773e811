// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The snapshots of one question. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "fleet/selection.h"

static bool all_match(const struct fleet_selection *const *selection, size_t nr,
		      const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	for (size_t i = 0; i < nr; i++)
		if (!fleet_selection_matches(selection[i], facts, snapshot))
			return false;
	return true;
}

/* The parts of a snapshot come just before it. They are dropped: their blocks would count twice. */
static void drop_parts(struct cohort *cohort, const struct fleet_snapshot *whole)
{
	while (cohort->snapshot_nr) {
		const struct fleet_snapshot *last = cohort->snapshot[cohort->snapshot_nr - 1];

		if (whole->is_part || !last->is_part || last->process != whole->process ||
		    last->clock_ns != whole->clock_ns || last->time_ns != whole->time_ns)
			return;
		cohort->snapshot_nr--;
	}
}

/* Snapshots come ordered by process: if the cohort has one of this process, it is the last one. */
static int cohort_add_snapshot(struct cohort *cohort, const struct fleet_snapshot *snapshot, enum cohort_times times)
{
	const struct fleet_snapshot **last =
		cohort->snapshot_nr ? &cohort->snapshot[cohort->snapshot_nr - 1] : NULL;

	if (last && (*last)->process == snapshot->process) {
		if (times == COHORT_ALL)
			drop_parts(cohort, snapshot);
		if (times == COHORT_ALL || times == COHORT_WITH_PARTS)
			return array_push(cohort, snapshot, snapshot);
		if (fleet_snapshot_is_later(snapshot, *last))
			*last = snapshot;
		return 0;
	}
	cohort->process_nr++;
	return array_push(cohort, snapshot, snapshot);
}

static int count_hosts(struct cohort *cohort, uint32_t host_nr)
{
	uint8_t *seen = calloc(host_nr + 1ull, 1);

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		uint8_t *host = &seen[cohort->snapshot[i]->host_nr];

		cohort->host_nr += !*host;
		*host = 1;
	}
	free(seen);
	return 0;
}

static void add_ended(struct cohort *cohort, const struct fleet_snapshot *last)
{
	struct cohort_ended *ended = strcmp(last->ending, NOT_SEEN_AGAIN) ? &cohort->ended : &cohort->unseen;

	if (!ended->process_nr || last->behind_ns < ended->least_behind_ns)
		ended->least_behind_ns = last->behind_ns;
	if (last->behind_ns > ended->most_behind_ns)
		ended->most_behind_ns = last->behind_ns;
	ended->process_nr++;
	ended->bytes += last->size;
}

/* Each process has one snapshot. */
static void leave_out_ended(struct cohort *cohort)
{
	size_t nr = 0;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = cohort->snapshot[i];

		if (!fleet_snapshot_is_live(snapshot))
			add_ended(cohort, snapshot);
		else
			cohort->snapshot[nr++] = snapshot;
	}
	cohort->snapshot_nr = cohort->process_nr = nr;
}

static bool any_asks_for_ended(const struct fleet_selection *const *selection, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (fleet_selection_asks_for_ended(selection[i]))
			return true;
	return false;
}

int cohort_choose(const struct fleet_facts *facts, const struct fleet_selection *const *selection,
		  size_t selection_nr, enum cohort_times times, struct cohort *ret)
{
	bool is_live = times == COHORT_LIVE && !any_asks_for_ended(selection, selection_nr);
	struct cohort cohort = { .times = times == COHORT_LIVE && !is_live ? COHORT_LATEST : times };
	int err = 0;

	for (size_t i = 0; i < facts->snapshot_nr && !err; i++) {
		const struct fleet_snapshot *snapshot = &facts->snapshot[i];

		if (all_match(selection, selection_nr, facts, snapshot))
			err = cohort_add_snapshot(&cohort, snapshot, times);
	}
	if (is_live && !err)
		leave_out_ended(&cohort);
	if (!err)
		err = count_hosts(&cohort, facts->host_nr);
	if (err) {
		cohort_release(&cohort);
		return err;
	}
	*ret = cohort;
	return 0;
}

int cohort_of_chosen(const struct fleet_facts *facts, uint8_t bit, enum cohort_times times, struct cohort *ret)
{
	struct cohort cohort = { .times = times };
	int err = 0;

	for (size_t i = 0; i < facts->snapshot_nr && !err; i++)
		if (facts->snapshot[i].chosen_by & bit)
			err = cohort_add_snapshot(&cohort, &facts->snapshot[i], times);
	err = err ?: count_hosts(&cohort, facts->host_nr);
	if (err)
		cohort_release(&cohort);
	else
		*ret = cohort;
	return err;
}

int cohort_explain_error(int err, const struct cohort *const *cohort, size_t cohort_nr, struct reason *why)
{
	const struct fleet_snapshot *largest = NULL;
	struct reason line;

	if (err != -ERANGE || !why)
		return err;
	for (size_t side = 0; side < cohort_nr; side++)
		for (size_t i = 0; i < cohort[side]->snapshot_nr; i++)
			if (!largest || cohort[side]->snapshot[i]->size > largest->size)
				largest = cohort[side]->snapshot[i];
	line = *why;
	return !largest ? err :
		reason_set(why, err, "%.120s; the largest snapshot is one of %.64s: --where 'path!=%.240s' leaves it out",
			   line.text, largest->host, largest->path);
}

uint64_t cohort_row_nr(const struct cohort *cohort)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		nr += cohort->snapshot[i]->row_nr;
	return nr;
}

void cohort_release(struct cohort *cohort)
{
	free(cohort->snapshot);
	*cohort = (struct cohort){};
}
