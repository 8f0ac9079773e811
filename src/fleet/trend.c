// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <stdlib.h>

#include "base/reason.h"
#include "engine/trace_cost.h"
#include "fleet/group_sums.h"
#include "fleet/per_host.h"
#include "fleet/parallel_scan.h"

static __int128 elapsed_since_first(const struct recording_clock *clock, int64_t clock_ns)
{
	return (__int128)clock_ns - clock->first_ns;
}

static void count_recorded_snapshot(struct recording_clock *clock, const struct fleet_snapshot *snapshot)
{
	if (!clock->snapshot_nr++)
		clock->first_ns = snapshot->clock_ns;
	clock->last_ns = snapshot->clock_ns;
	clock->sum_ns += elapsed_since_first(clock, snapshot->clock_ns);
	clock->has_gap_blocks |= snapshot->gap_blocks.count > 0;
}

static void add_square(struct recording_clock *clock, int64_t clock_ns)
{
	long double distance = (long double)recording_clock_lever(clock, clock_ns) / clock->snapshot_nr;

	clock->square += distance * distance;
}

struct recording_clock *recording_clocks_make(const struct fleet_facts *facts, const struct cohort *cohort)
{
	struct recording_clock *clock = calloc(facts->recording_nr ?: 1, sizeof(*clock));

	if (!clock)
		return NULL;
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		count_recorded_snapshot(&clock[cohort->snapshot[i]->recording], cohort->snapshot[i]);
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		add_square(&clock[cohort->snapshot[i]->recording], cohort->snapshot[i]->clock_ns);
	return clock;
}

__int128 recording_clock_lever(const struct recording_clock *clock, int64_t clock_ns)
{
	return elapsed_since_first(clock, clock_ns) * clock->snapshot_nr - clock->sum_ns;
}

int recording_moment_add(__int128 *moment, __int128 lever, int64_t bytes, struct reason *why)
{
	__int128 more;

	if (__builtin_mul_overflow(lever, (__int128)bytes, &more) || __builtin_add_overflow(*moment, more, moment))
		return reason_set(why, -ERANGE, "sizes and times are too large to tell a trend");
	return 0;
}

#define SECOND_NS 1e9L

/*
 * The sum of (t - mean t)(y - mean y) is the sum of (t - mean t) y, because the (t - mean t) add up to 0. So a
 * snapshot without the group adds nothing, and no snapshot has to be kept.
 */

/* A group in the recordings that were read to their end. */
struct growth {
	long double moment; /* the sum of (t - mean t) y, ns × bytes */
	long double square; /* the sum of (t - mean t)^2, ns^2, over the recordings that have the group */
	long double growth; /* the sum of each recording's own slope times its length, bytes */
	int64_t first, last;
	uint32_t processes;
	uint32_t process; /* the last process + 1: a process's recordings come one after another */
};

/* A group in the recording that is being read. */
struct current {
	__int128 moment; /* times the recording's number of snapshots */
	bool is_used;
};

struct trend_lane {
	struct group_sums sums; /* of one snapshot */
	struct growth *growth;	/* by group, as current is */
	struct current *current;
	uint32_t *used; /* the groups that the recording has */
	size_t used_nr;
	const struct recording_clock *clock;
	uint32_t at; /* index of the recording's next snapshot */
};

struct trend_fold {
	const struct fleet_question *question;
	struct recording_clock *clock;
	struct trend_lane lane[WALK_LANES];
};

/* ---- reading -------------------------------------------------------------------------------- */

static int trend_lane_init(struct trend_lane *lane, const struct groups *groups)
{
	size_t room = groups->key_nr ?: 1;

	lane->growth = calloc(room, sizeof(*lane->growth));
	lane->current = calloc(room, sizeof(*lane->current));
	lane->used = calloc(room, sizeof(*lane->used));
	if (!lane->growth || !lane->current || !lane->used)
		return -ENOMEM;
	return group_sums_init(&lane->sums, groups);
}

static void trend_lane_release(struct trend_lane *lane)
{
	group_sums_release(&lane->sums);
	free(lane->growth);
	free(lane->current);
	free(lane->used);
}

static int add_group(struct trend_lane *lane, uint32_t group, __int128 lever, struct reason *why)
{
	struct growth *growth = &lane->growth[group];
	struct current *current = &lane->current[group];
	int64_t bytes;
	int err = group_sums_get(&lane->sums, group, &bytes, why);

	if (err)
		return err;
	if (!current->is_used) {
		current->is_used = true;
		lane->used[lane->used_nr++] = group;
	}
	if (lane->at == 0 && __builtin_add_overflow(growth->first, bytes, &growth->first))
		return cost_too_much(why);
	if (lane->at + 1 == lane->clock->snapshot_nr &&
	    __builtin_add_overflow(growth->last, bytes, &growth->last))
		return cost_too_much(why);
	return recording_moment_add(&current->moment, lever, bytes, why);
}

/* A recording's own slope is its moment over the square of its times. */
static void end_group(struct growth *growth, const struct current *current, const struct recording_clock *clock,
		      uint32_t process)
{
	long double moment = (long double)current->moment / clock->snapshot_nr;

	growth->processes += growth->process != process + 1;
	growth->process = process + 1;
	if (!(clock->square > 0))
		return;
	growth->moment += moment;
	growth->square += clock->square;
	growth->growth += moment / clock->square * ((long double)clock->last_ns - clock->first_ns);
}

static void trend_end_recording(struct trend_lane *lane, uint32_t process)
{
	for (size_t i = 0; i < lane->used_nr; i++) {
		struct current *current = &lane->current[lane->used[i]];

		end_group(&lane->growth[lane->used[i]], current, lane->clock, process);
		*current = (struct current){};
	}
	lane->used_nr = 0;
	lane->at = 0;
}

static int trend_fold_add_snapshot(void *what, unsigned int number, const struct fleet_snapshot *snapshot,
				   const struct fleet_rows *rows, struct reason *why)
{
	struct trend_fold *fold = what;
	struct trend_lane *lane = &fold->lane[number];
	int err = lane->sums.groups ? 0 : trend_lane_init(lane, fold->question->groups);
	__int128 lever;

	if (!err)
		err = group_sums_add(&lane->sums, rows, why);
	if (err)
		return err;
	lane->clock = &fold->clock[snapshot->recording];
	lever = recording_clock_lever(lane->clock, snapshot->clock_ns);
	for (size_t i = 0; i < lane->sums.used_nr && !err && !lane->clock->has_gap_blocks; i++)
		err = add_group(lane, lane->sums.used[i], lever, why);
	group_sums_clear(&lane->sums);
	if (!err && ++lane->at == lane->clock->snapshot_nr)
		trend_end_recording(lane, snapshot->process);
	return err;
}

static int walk_processes(struct trend_fold *fold, struct reason *why)
{
	const struct fleet_question *question = fold->question;
	const struct walk walk = {
		.catalogue = question->catalogue,
		.cohort = question->cohort,
		.origin_nr = question->facts->origin_nr,
		.unit = WALK_BY_PROCESS,
		.visit = trend_fold_add_snapshot,
		.what = fold,
	};

	fold->clock = recording_clocks_make(question->facts, question->cohort);
	return fold->clock ? fleet_walk(&walk, why) : -ENOMEM;
}

static void trend_fold_release(struct trend_fold *fold)
{
	for (size_t i = 0; i < WALK_LANES; i++)
		trend_lane_release(&fold->lane[i]);
	free(fold->clock);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/*
 * Counts the processes that could have grown: those with a recording that has snapshots at two times and no gaps that
 * blocks have lived through, since such blocks may be gone; and those that have only recordings with gaps.
 */
static void count_processes(const struct trend_fold *fold, struct trend_rows *rows)
{
	const struct cohort *cohort = fold->question->cohort;
	uint32_t last = UINT32_MAX, last_in_gaps = UINT32_MAX;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		uint32_t process = cohort->snapshot[i]->process;
		const struct recording_clock *clock = &fold->clock[cohort->snapshot[i]->recording];

		if (process == last || !(clock->square > 0) || (clock->has_gap_blocks && process == last_in_gaps))
			continue;
		rows->processes_in_gaps += clock->has_gap_blocks;
		if (clock->has_gap_blocks) {
			last_in_gaps = process;
			continue;
		}
		rows->processes_in_gaps -= process == last_in_gaps;
		last = process;
		rows->processes++;
	}
}

/* Adds the lanes in their order, on which sums of doubles depend. */
static int sum_trend_lanes(const struct trend_fold *fold, uint32_t group, struct growth *ret,
			   struct reason *why)
{
	*ret = (struct growth){};
	for (size_t i = 0; i < WALK_LANES; i++) {
		const struct growth *growth = fold->lane[i].growth;

		if (!growth)
			continue;
		ret->moment += growth[group].moment;
		ret->square += growth[group].square;
		ret->growth += growth[group].growth;
		ret->processes += growth[group].processes;
		if (__builtin_add_overflow(ret->first, growth[group].first, &ret->first) ||
		    __builtin_add_overflow(ret->last, growth[group].last, &ret->last))
			return cost_too_much(why);
	}
	return 0;
}

static int fill_trend_rows(const struct trend_fold *fold, struct trend_rows *rows, struct reason *why)
{
	size_t group_nr = fold->question->groups->key_nr;
	int err = 0;

	count_processes(fold, rows);
	for (size_t i = 0; i < group_nr && !err; i++) {
		struct trend_row *row = &rows->row[rows->row_nr];
		struct growth growth;

		err = sum_trend_lanes(fold, i, &growth, why);
		if (!growth.processes)
			continue;
		row->group = i;
		row->slope = growth.square > 0 ? growth.moment / growth.square * SECOND_NS : 0;
		row->growth = growth.growth;
		row->moment = growth.moment;
		row->first = growth.first;
		row->last = growth.last;
		row->processes = growth.processes;
		rows->row_nr++;
	}
	return err;
}

static int by_moment(const void *left, const void *right, void *groups)
{
	const struct trend_row *a = left, *b = right;

	return (a->moment < b->moment) - (a->moment > b->moment) ?:
	       (a->last < b->last) - (a->last > b->last) ?: group_compare_keys(groups, a->group, b->group);
}

static int make_trend_rows(const struct trend_fold *fold, struct trend_rows *rows, struct reason *why)
{
	const struct groups *groups = fold->question->groups;
	int err;

	rows->row = calloc(groups->key_nr ?: 1, sizeof(*rows->row));
	if (!rows->row)
		return -ENOMEM;
	err = fill_trend_rows(fold, rows, why);
	if (!err)
		qsort_r(rows->row, rows->row_nr, sizeof(*rows->row), by_moment, (void *)groups);
	return err;
}

int fleet_find_trends(const struct fleet_question *question, struct trend_rows *ret, struct reason *why)
{
	struct trend_fold fold = { .question = question };
	struct trend_rows rows = {};
	int err = walk_processes(&fold, why);

	if (!err)
		err = make_trend_rows(&fold, &rows, why);
	trend_fold_release(&fold);
	if (err)
		trend_rows_release(&rows);
	else
		*ret = rows;
	return cohort_explain_error(err, &question->cohort, 1, why);
}

void trend_rows_release(struct trend_rows *rows)
{
	free(rows->row);
	*rows = (struct trend_rows){};
}
