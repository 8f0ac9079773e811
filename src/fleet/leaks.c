// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "engine/cost.h"
#include "fleet/group_sums.h"
#include "fleet/process_clock.h"
#include "fleet/spread.h"
#include "fleet/walk.h"

#define SNAPSHOTS_MIN 3 /* with two, half of all that changes would grow steadily */
#define UPS_MIN 2	/* one is a warm-up */

/* What a group has over the processes that were read to their end. */
struct leak {
	int64_t growth;
	uint32_t processes, processes_growing;
	uint32_t hosts, hosts_growing;
	uint32_t host, host_growing; /* the last of them + 1: a host's processes come together */
};

/* And in the one that is being read: bytes from snapshot to snapshot. */
struct course {
	int64_t first, last;
	uint32_t next; /* snapshot after the one that `last` is of; 0: the process does not have the group */
	uint32_t changes, ups;
};

struct leak_lane {
	struct group_sums sums; /* of a snapshot */
	struct leak *leak;	/* by group, as course */
	struct course *course;
	uint32_t *used; /* the groups that the process has */
	size_t used_nr;
	uint32_t at; /* which of the process's snapshots comes next */
};

struct leak_fold {
	const struct fleet_question *question;
	struct process_clock *clock;
	struct leak_lane lane[WALK_LANES];
};

/* ---- reading -------------------------------------------------------------------------------- */

static int lane_init(struct leak_lane *lane, const struct groups *groups)
{
	size_t room = groups->key_nr ?: 1;

	lane->leak = calloc(room, sizeof(*lane->leak));
	lane->course = calloc(room, sizeof(*lane->course));
	lane->used = calloc(room, sizeof(*lane->used));
	if (!lane->leak || !lane->course || !lane->used)
		return -ENOMEM;
	return group_sums_init(&lane->sums, groups);
}

static void lane_release(struct leak_lane *lane)
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

/* At snapshot number `at`; in those between this one and the last that had it, there was nothing. */
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

static int add_groups(struct leak_lane *lane, struct reason *why)
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
	}
	return err;
}

static bool grows_steadily(const struct course *course, uint32_t snapshot_nr)
{
	return course->last > course->first && course->ups >= UPS_MIN &&
	       2ull * course->ups >= snapshot_nr - 1ull && 4ull * course->ups >= 3ull * course->changes;
}

static int leak_add(struct leak *leak, const struct course *course, uint32_t host, bool is_growing,
		    struct reason *why)
{
	leak->processes++;
	leak->hosts += leak->host != host + 1;
	leak->host = host + 1;
	if (!is_growing)
		return 0;
	leak->processes_growing++;
	leak->hosts_growing += leak->host_growing != host + 1;
	leak->host_growing = host + 1;
	if (__builtin_add_overflow(leak->growth, course->last - course->first, &leak->growth))
		return cost_too_much(why);
	return 0;
}

static int end_process(struct leak_lane *lane, uint32_t host, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < lane->used_nr && !err; i++) {
		uint32_t group = lane->used[i];
		struct course *course = &lane->course[group];

		if (course->next < lane->at)
			course_step(course, 0);
		if (lane->at >= SNAPSHOTS_MIN)
			err = leak_add(&lane->leak[group], course, host, grows_steadily(course, lane->at), why);
		*course = (struct course){};
	}
	lane->used_nr = 0;
	lane->at = 0;
	return err;
}

static int add_snapshot(void *what, unsigned int number, const struct fleet_snapshot *snapshot,
			const struct fleet_rows *rows, struct reason *why)
{
	struct leak_fold *fold = what;
	struct leak_lane *lane = &fold->lane[number];
	int err = lane->sums.groups ? 0 : lane_init(lane, fold->question->groups);

	if (!err)
		err = group_sums_add(&lane->sums, rows, why);
	if (!err)
		err = add_groups(lane, why);
	if (err)
		return err;
	group_sums_clear(&lane->sums);
	if (++lane->at == fold->clock[snapshot->process].snapshot_nr)
		err = end_process(lane, snapshot->host_nr, why);
	return err;
}

static int walk_hosts(struct leak_fold *fold, struct reason *why)
{
	const struct fleet_question *question = fold->question;
	const struct walk walk = {
		.catalogue = question->catalogue,
		.cohort = question->cohort,
		.origin_nr = question->facts->origin_nr,
		.unit = WALK_BY_HOST,
		.visit = add_snapshot,
		.what = fold,
	};

	fold->clock = process_clocks(question->facts, question->cohort);
	return fold->clock ? fleet_walk(&walk, why) : -ENOMEM;
}

static void leak_fold_release(struct leak_fold *fold)
{
	for (size_t i = 0; i < WALK_LANES; i++)
		lane_release(&fold->lane[i]);
	free(fold->clock);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* A host is in one lane only. */
static int sum_lanes(const struct leak_fold *fold, uint32_t group, struct leak *ret, struct reason *why)
{
	*ret = (struct leak){};
	for (size_t i = 0; i < WALK_LANES; i++) {
		const struct leak *leak = fold->lane[i].leak;

		if (!leak)
			continue;
		ret->processes += leak[group].processes;
		ret->processes_growing += leak[group].processes_growing;
		ret->hosts += leak[group].hosts;
		ret->hosts_growing += leak[group].hosts_growing;
		if (__builtin_add_overflow(ret->growth, leak[group].growth, &ret->growth))
			return cost_too_much(why);
	}
	return 0;
}

static bool is_leak(const struct leak *leak)
{
	return leak->hosts_growing && 2ull * leak->hosts_growing >= leak->hosts &&
	       (leak->hosts_growing >= 2 || leak->hosts == 1);
}

/* The trend has a row for each group that somebody has. */
static int fill_rows(const struct leak_fold *fold, const struct trend_rows *trend,
		     struct leak_rows *rows, struct reason *why)
{
	int err = 0;

	for (size_t i = 0; i < trend->row_nr && !err; i++) {
		struct leak leak;

		err = sum_lanes(fold, trend->row[i].group, &leak, why);
		if (err || !is_leak(&leak))
			continue;
		rows->row[rows->row_nr++] = (struct leak_row){
			.group = trend->row[i].group,
			.hosts = leak.hosts,
			.hosts_growing = leak.hosts_growing,
			.processes = leak.processes,
			.processes_growing = leak.processes_growing,
			.growth = leak.growth,
			.slope = trend->row[i].slope,
		};
	}
	return err;
}

/* The cohort has the processes of a host side by side, and the snapshots of each. */
static void count_short(const struct leak_fold *fold, struct leak_rows *rows)
{
	const struct cohort *cohort = fold->question->cohort;
	bool is_short_host = true;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = cohort->snapshot[i];
		const struct fleet_snapshot *next = i + 1 < cohort->snapshot_nr ? cohort->snapshot[i + 1] : NULL;
		bool is_short = fold->clock[snapshot->process].snapshot_nr < SNAPSHOTS_MIN;

		rows->processes_short += is_short && (!next || next->process != snapshot->process);
		is_short_host &= is_short;
		if (next && next->host_nr == snapshot->host_nr)
			continue;
		rows->hosts_short += is_short_host;
		is_short_host = true;
	}
}

static int by_growth(const void *left, const void *right, void *groups)
{
	const struct leak_row *a = left, *b = right;

	return (a->growth < b->growth) - (a->growth > b->growth) ?:
	       (a->slope < b->slope) - (a->slope > b->slope) ?: group_compare(groups, a->group, b->group);
}

static int make_rows(const struct leak_fold *fold, const struct trend_rows *trend,
		     struct leak_rows *rows, struct reason *why)
{
	int err;

	count_short(fold, rows);
	rows->row = calloc(trend->row_nr ?: 1, sizeof(*rows->row));
	if (!rows->row)
		return -ENOMEM;
	err = fill_rows(fold, trend, rows, why);
	if (!err)
		qsort_r(rows->row, rows->row_nr, sizeof(*rows->row), by_growth,
			(void *)fold->question->groups);
	return err;
}

int fleet_leaks(const struct fleet_question *question, struct leak_rows *ret, struct reason *why)
{
	struct leak_fold fold = { .question = question };
	struct trend_rows trend = {};
	struct leak_rows rows = {};
	int err = fleet_trend(question, &trend, why);

	if (!err)
		err = walk_hosts(&fold, why);
	if (!err)
		err = make_rows(&fold, &trend, &rows, why);
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
