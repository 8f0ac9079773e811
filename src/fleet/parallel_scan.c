// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/parallel_scan.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/reason.h"

#define SNAPSHOT_ROWS 64 /* what finding a snapshot's rows costs, in rows */

struct walking {
	const struct walk *walk;
	const struct fleet_snapshot **order; /* unit by unit */
	size_t lane_first[WALK_LANES + 1];
	atomic_uint next_lane;
	atomic_uint failed_lane; /* the lowest lane that has failed; higher lanes need not go on */
	int err[WALK_LANES];
	struct reason why[WALK_LANES];
};

/* ---- lanes ------------------------------------------------------------------------------------- */

static uint32_t unit_of(const struct walk *walk, const struct fleet_snapshot *snapshot)
{
	return walk->unit == WALK_BY_HOST ? snapshot->host_nr : snapshot->process;
}

/* Compares pointers into the array of facts, which is ordered by process and then by time. */
static int by_host(const void *left, const void *right)
{
	const struct fleet_snapshot *a = *(const struct fleet_snapshot *const *)left;
	const struct fleet_snapshot *b = *(const struct fleet_snapshot *const *)right;

	if (a->host_nr != b->host_nr)
		return a->host_nr < b->host_nr ? -1 : 1;
	return (a > b) - (a < b);
}

static int make_order(struct walking *walking)
{
	const struct cohort *cohort = walking->walk->cohort;
	size_t size = sizeof(*walking->order);

	walking->order = malloc((cohort->snapshot_nr ?: 1) * size);
	if (!walking->order)
		return -ENOMEM;
	if (cohort->snapshot_nr)
		memcpy(walking->order, cohort->snapshot, cohort->snapshot_nr * size);
	if (walking->walk->unit == WALK_BY_HOST && cohort->snapshot_nr)
		qsort(walking->order, cohort->snapshot_nr, size, by_host);
	return 0;
}

static uint64_t snapshot_weight(const struct fleet_snapshot *snapshot)
{
	return snapshot->row_nr + SNAPSHOT_ROWS;
}

static bool begins_unit(const struct walking *walking, size_t i)
{
	return !i || unit_of(walking->walk, walking->order[i]) !=
			     unit_of(walking->walk, walking->order[i - 1]);
}

/* Cuts lanes of about as many rows each. A unit is in the lane that its first row belongs to. */
static void cut_lanes(struct walking *walking)
{
	size_t nr = walking->walk->cohort->snapshot_nr;
	uint64_t total = 0, before = 0;
	unsigned int lane = 0;

	for (size_t i = 0; i < nr; i++)
		total += snapshot_weight(walking->order[i]);
	for (size_t i = 0; i < nr; i++) {
		if (begins_unit(walking, i))
			while (lane < before * WALK_LANES / total)
				walking->lane_first[++lane] = i;
		before += snapshot_weight(walking->order[i]);
	}
	while (lane < WALK_LANES)
		walking->lane_first[++lane] = nr;
}

/* ---- snapshots --------------------------------------------------------------------------------- */

/* Rows and facts must agree on whether there are samples: visit() relies on the facts to make room. */
static int read_rows(const struct walk *walk, struct rows_reader *reader, const struct fleet_snapshot *snapshot,
		     struct fleet_rows *rows, struct reason *why)
{
	int err = rows_reader__read(reader, snapshot->snapshot_id, walk->origin_nr, rows, why);

	if (err || !rows->spread == !snapshot->is_sampled)
		return err;
	return reason_set(why, -EBADMSG, "%.300s: the catalogue is damaged: a snapshot and its rows differ in whether "
			  "they are of samples", catalogue__path(walk->catalogue));
}

/* ---- threads ----------------------------------------------------------------------------------- */

static int visit_snapshot(struct walking *walking, unsigned int lane, size_t i, struct rows_reader *reader,
			  struct fleet_rows *rows)
{
	const struct walk *walk = walking->walk;
	const struct fleet_snapshot *snapshot = walking->order[i];
	bool ends_unit = i + 1 == walking->lane_first[lane + 1] || begins_unit(walking, i + 1);
	struct reason *why = &walking->why[lane];
	int err;

	err = read_rows(walk, reader, snapshot, rows, why) ?: walk->visit(walk->what, lane, snapshot, rows, why);
	if (!err && ends_unit && walk->unit_end)
		err = walk->unit_end(walk->what, lane, why);
	return err;
}

static void fail_lane(struct walking *walking, unsigned int lane, int err)
{
	unsigned int lowest = atomic_load(&walking->failed_lane);

	walking->err[lane] = err;
	while (lane < lowest && !atomic_compare_exchange_weak(&walking->failed_lane, &lowest, lane))
		;
}

static void walk_lane(struct walking *walking, unsigned int lane, struct rows_reader **reader,
		      struct fleet_rows *rows)
{
	size_t i = walking->lane_first[lane], end = walking->lane_first[lane + 1];
	int err = 0;

	if (i < end && !*reader)
		err = rows_reader__new(walking->walk->catalogue, reader, &walking->why[lane]);
	for (; i < end && !err && lane < atomic_load(&walking->failed_lane); i++)
		err = visit_snapshot(walking, lane, i, *reader, rows);
	if (err)
		fail_lane(walking, lane, err);
}

static void walk_lanes(void *walking_)
{
	struct walking *walking = walking_;
	struct rows_reader *reader = NULL;
	struct fleet_rows rows = {};
	unsigned int lane;

	while ((lane = atomic_fetch_add(&walking->next_lane, 1)) < WALK_LANES)
		walk_lane(walking, lane, &reader, &rows);
	rows_reader__free(reader);
	fleet_rows_release(&rows);
}

/* Returns the error of the lowest lane, which is the same in each run. */
static int first_error(const struct walking *walking, struct reason *why)
{
	unsigned int lane = atomic_load(&walking->failed_lane);

	if (lane == WALK_LANES)
		return 0;
	if (why)
		*why = walking->why[lane];
	return walking->err[lane];
}

int fleet_walk(const struct walk *walk, struct reason *why)
{
	struct walking walking = { .walk = walk, .failed_lane = WALK_LANES };
	unsigned int thread_nr = processor_nr();
	int err = make_order(&walking);

	if (!err) {
		cut_lanes(&walking);
		run_by(thread_nr < WALK_LANES ? thread_nr : WALK_LANES, walk_lanes, &walking);
		err = first_error(&walking, why);
	}
	free(walking.order);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : err;
}
