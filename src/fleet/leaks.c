// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "engine/trace_cost.h"
#include "fleet/group_sums.h"
#include "fleet/per_host.h"
#include "fleet/parallel_scan.h"

#define SNAPSHOTS_MIN 3 /* with two snapshots, half of all groups that change would grow steadily */
#define UPS_MIN 2	/* a single growth is a warm-up */
#define SECOND_NS 1e9L

/* How many different numbers there are, and the last one + 1. Equal numbers come one after another. */
struct distinct {
	uint32_t nr, last;
};

/* A group in the recordings that were read to their end. */
struct leak {
	int64_t growth;
	struct distinct processes, processes_growing;
	struct distinct hosts, hosts_growing;
	long double moment, square; /* of the recordings that grow: ns × bytes, ns^2 (per_host.h) */
};

/* A group in the recording that is being read: its bytes from snapshot to snapshot. */
struct course {
	int64_t first, last;
	uint32_t next; /* the snapshot after the one that `last` is from; 0: the recording does not have the group */
	uint32_t changes, ups;
	__int128 moment; /* times the recording's number of snapshots */
};

struct leak_lane {
	struct group_sums sums; /* of one snapshot */
	struct leak *leak;	/* by group, as course is */
	struct course *course;
	uint32_t *used; /* the groups that the recording has */
	size_t used_nr;
	const struct recording_clock *clock;
	uint32_t at; /* index of the recording's next snapshot */
};

struct leak_fold {
	const struct fleet_question *question;
	struct recording_clock *clock;
	struct leak_lane lane[WALK_LANES];
};

/* ---- reading -------------------------------------------------------------------------------- */

static int leak_lane_init(struct leak_lane *lane, const struct groups *groups)
{
	size_t room = groups->key_nr ?: 1;

	lane->leak = calloc(room, sizeof(*lane->leak));
	lane->course = calloc(room, sizeof(*lane->course));
	lane->used = calloc(room, sizeof(*lane->used));
	if (!lane->leak || !lane->course || !lane->used)
		return -ENOMEM;
	return group_sums_init(&lane->sums, groups);
}

static void leak_lane_release(struct leak_lane *lane)
{
	group_sums_release(&lane->sums);
	free(lane->leak);
	free(lane->course);
	free(lane->used);
}

static void course_step(struct course *course, int64_t bytes)
{
	if (bytes == course->last)
		return;
	course->changes++;
	course->ups += bytes > course->last;
	course->last = bytes;
}

/* Adds snapshot number `at`. Snapshots between it and the previous one with the group had none of the group's bytes. */
static void course_add(struct course *course, uint32_t at, int64_t bytes)
{
	if (!at)
		course->first = course->last = bytes;
	if (course->next < at)
		course_step(course, 0);
	if (at)
		course_step(course, bytes);
	course->next = at + 1;
}

static int add_groups(struct leak_lane *lane, __int128 lever, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < lane->sums.used_nr && !err; i++) {
		uint32_t group = lane->sums.used[i];
		struct course *course = &lane->course[group];
		int64_t bytes;

		err = group_sums_get(&lane->sums, group, &bytes, why);
		if (err)
			continue;
		if (!course->next)
			lane->used[lane->used_nr++] = group;
		course_add(course, lane->at, bytes);
		err = recording_moment_add(&course->moment, lever, bytes, why);
	}
	return err;
}

static bool grows_steadily(const struct course *course, uint32_t snapshot_nr)
{
	return course->last > course->first && course->ups >= UPS_MIN &&
	       2ull * course->ups >= snapshot_nr - 1ull && 4ull * course->ups >= 3ull * course->changes;
}

static void distinct_add(struct distinct *distinct, uint32_t number)
{
	distinct->nr += distinct->last != number + 1;
	distinct->last = number + 1;
}

static int leak_add(struct leak *leak, const struct course *course, const struct recording_clock *clock,
		    const struct fleet_snapshot *snapshot, struct reason *why)
{
	distinct_add(&leak->processes, snapshot->process);
	distinct_add(&leak->hosts, snapshot->host_nr);
	if (!grows_steadily(course, clock->snapshot_nr))
		return 0;
	distinct_add(&leak->processes_growing, snapshot->process);
	distinct_add(&leak->hosts_growing, snapshot->host_nr);
	leak->moment += (long double)course->moment / clock->snapshot_nr;
	leak->square += clock->square;
	if (__builtin_add_overflow(leak->growth, course->last - course->first, &leak->growth))
		return cost_too_much(why);
	return 0;
}

static bool is_judged(const struct recording_clock *clock)
{
	return clock->snapshot_nr >= SNAPSHOTS_MIN && !clock->has_gap_blocks;
}

/* snapshot: the recording's last one. */
static int leak_end_recording(struct leak_lane *lane, const struct fleet_snapshot *snapshot, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < lane->used_nr && !err; i++) {
		uint32_t group = lane->used[i];
		struct course *course = &lane->course[group];

		if (course->next < lane->at)
			course_step(course, 0);
		if (is_judged(lane->clock))
			err = leak_add(&lane->leak[group], course, lane->clock, snapshot, why);
		*course = (struct course){};
	}
	lane->used_nr = 0;
	lane->at = 0;
	return err;
}

static int leak_fold_add_snapshot(void *what, unsigned int number, const struct fleet_snapshot *snapshot,
				  const struct fleet_rows *rows, struct reason *why)
{
	struct leak_fold *fold = what;
	struct leak_lane *lane = &fold->lane[number];
	int err = lane->sums.groups ? 0 : leak_lane_init(lane, fold->question->groups);

	lane->clock = &fold->clock[snapshot->recording];
	if (!err)
		err = group_sums_add(&lane->sums, rows, why);
	if (!err)
		err = add_groups(lane, recording_clock_lever(lane->clock, snapshot->clock_ns), why);
	if (err)
		return err;
	group_sums_clear(&lane->sums);
	if (++lane->at == lane->clock->snapshot_nr)
		err = leak_end_recording(lane, snapshot, why);
	return err;
}

static int leak_fold_walk_hosts(struct leak_fold *fold, struct reason *why)
{
	const struct fleet_question *question = fold->question;
	const struct walk walk = {
		.catalogue = question->catalogue,
		.cohort = question->cohort,
		.origin_nr = question->facts->origin_nr,
		.unit = WALK_BY_HOST,
		.visit = leak_fold_add_snapshot,
		.what = fold,
	};

	fold->clock = recording_clocks_make(question->facts, question->cohort);
	return fold->clock ? fleet_walk(&walk, why) : -ENOMEM;
}

static void leak_fold_release(struct leak_fold *fold)
{
	for (size_t i = 0; i < WALK_LANES; i++)
		leak_lane_release(&fold->lane[i]);
	free(fold->clock);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* A host is in one lane only, so the lanes' numbers of hosts add up. */
static int sum_leak_lanes(const struct leak_fold *fold, uint32_t group, struct leak *ret, struct reason *why)
{
	*ret = (struct leak){};
	for (size_t i = 0; i < WALK_LANES; i++) {
		const struct leak *leak = fold->lane[i].leak;

		if (!leak)
			continue;
		ret->processes.nr += leak[group].processes.nr;
		ret->processes_growing.nr += leak[group].processes_growing.nr;
		ret->hosts.nr += leak[group].hosts.nr;
		ret->hosts_growing.nr += leak[group].hosts_growing.nr;
		ret->moment += leak[group].moment;
		ret->square += leak[group].square;
		if (__builtin_add_overflow(ret->growth, leak[group].growth, &ret->growth))
			return cost_too_much(why);
	}
	return 0;
}

static bool is_leak(const struct leak *leak)
{
	return leak->hosts_growing.nr && 2ull * leak->hosts_growing.nr >= leak->hosts.nr &&
	       (leak->hosts_growing.nr >= 2 || leak->hosts.nr == 1);
}

/* The trend has a row for each group that any process has. */
static int fill_leak_rows(const struct leak_fold *fold, const struct trend_rows *trend,
			  struct leak_rows *rows, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < trend->row_nr && !err; i++) {
		struct leak leak;

		err = sum_leak_lanes(fold, trend->row[i].group, &leak, why);
		if (err || !is_leak(&leak))
			continue;
		rows->row[rows->row_nr++] = (struct leak_row){
			.group = trend->row[i].group,
			.hosts = leak.hosts.nr,
			.hosts_growing = leak.hosts_growing.nr,
			.processes = leak.processes.nr,
			.processes_growing = leak.processes_growing.nr,
			.growth = leak.growth,
			.slope = leak.square > 0 ? leak.moment / leak.square * SECOND_NS : 0,
		};
	}
	return err;
}

/* A process is judged if one of its recordings is. */
struct unjudged {
	bool is_process, is_host; /* so far no recording of the process, or host, is judged */
	bool is_in_gaps; /* one of the process's recordings was long enough */
};

static void count_process(struct unjudged *unjudged, struct leak_rows *rows)
{
	if (unjudged->is_process && unjudged->is_in_gaps)
		rows->processes_in_gaps++;
	else if (unjudged->is_process)
		rows->processes_short++;
	unjudged->is_host &= unjudged->is_process;
	unjudged->is_process = true;
	unjudged->is_in_gaps = false;
}

/* The cohort has the processes of a host side by side, and the snapshots of a process side by side. */
static void count_unjudged(const struct leak_fold *fold, struct leak_rows *rows)
{
	const struct cohort *cohort = fold->question->cohort;
	struct unjudged unjudged = { true, true };

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = cohort->snapshot[i];
		const struct fleet_snapshot *next = i + 1 < cohort->snapshot_nr ? cohort->snapshot[i + 1] : NULL;
		const struct recording_clock *clock = &fold->clock[snapshot->recording];

		unjudged.is_process &= !is_judged(clock);
		unjudged.is_in_gaps |= clock->snapshot_nr >= SNAPSHOTS_MIN;
		if (!next || next->process != snapshot->process)
			count_process(&unjudged, rows);
		if (next && next->host_nr == snapshot->host_nr)
			continue;
		rows->hosts_unjudged += unjudged.is_host;
		unjudged.is_host = true;
	}
}

static int by_leak_growth(const void *left, const void *right, void *groups)
{
	const struct leak_row *a = left, *b = right;

	return (a->growth < b->growth) - (a->growth > b->growth) ?:
	       (a->slope < b->slope) - (a->slope > b->slope) ?: group_compare_keys(groups, a->group, b->group);
}

static int make_leak_rows(const struct leak_fold *fold, const struct trend_rows *trend,
			  struct leak_rows *rows, struct reason *why)
{
	int err;

	count_unjudged(fold, rows);
	rows->row = calloc(trend->row_nr ?: 1, sizeof(*rows->row));
	if (!rows->row)
		return -ENOMEM;
	err = fill_leak_rows(fold, trend, rows, why);
	if (!err)
		qsort_r(rows->row, rows->row_nr, sizeof(*rows->row), by_leak_growth,
			(void *)fold->question->groups);
	return err;
}

int fleet_find_leaks(const struct fleet_question *question, struct leak_rows *ret, struct reason *why)
{
	struct leak_fold fold = { .question = question };
	struct trend_rows trend = {};
	struct leak_rows rows = {};
	int err = fleet_find_trends(question, &trend, why);

	if (!err)
		err = leak_fold_walk_hosts(&fold, why);
	if (!err)
		err = make_leak_rows(&fold, &trend, &rows, why);
	leak_fold_release(&fold);
	trend_rows_release(&trend);
	if (err)
		leak_rows_release(&rows);
	else
		*ret = rows;
	return err;
}

void leak_rows_release(struct leak_rows *rows)
{
	free(rows->row);
	*rows = (struct leak_rows){};
}
