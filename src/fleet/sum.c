// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fleet/sum.h"

#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/trace_cost.h"
#include "fleet/row_codec.h"
#include "fleet/parallel_scan.h"

/*
 * The sums of one lane, by origin; NULL if the lane has nothing. Pages without any sums are never touched, so that
 * they take no memory.
 */
struct lane_sum {
	struct cost *cost;
	struct spread *spread; /* of the sampled snapshots */
	/* The process that is being read, if it has several snapshots, and the origins that it has. */
	struct spread *process;
	uint32_t *used;
	size_t used_nr;
};

struct summing {
	uint32_t origin_nr;
	bool has_times; /* a process may have several snapshots */
	struct lane_sum lane[WALK_LANES];
};

/* ---- one lane ---------------------------------------------------------------------------------- */

static void lane_sum_release(struct lane_sum *lane)
{
	free(lane->cost);
	free(lane->spread);
	free(lane->process);
	free(lane->used);
	*lane = (struct lane_sum){};
}

static int make_room_for_process(struct lane_sum *lane, uint32_t origin_nr)
{
	lane->process = calloc(origin_nr + 1ull, sizeof(*lane->process));
	lane->used = calloc(origin_nr + 1ull, sizeof(*lane->used));
	return lane->process && lane->used ? 0 : -ENOMEM;
}

static int make_lane_room(struct lane_sum *lane, const struct summing *summing, bool is_sampled)
{
	uint32_t origin_nr = summing->origin_nr;

	if (!lane->cost)
		lane->cost = calloc(origin_nr + 1ull, sizeof(*lane->cost));
	if (is_sampled && !lane->spread)
		lane->spread = calloc(origin_nr + 1ull, sizeof(*lane->spread));
	if (!lane->cost || (is_sampled && !lane->spread))
		return -ENOMEM;
	return is_sampled && summing->has_times && !lane->process ? make_room_for_process(lane, origin_nr) : 0;
}

/* Runs ten million times a second and more, so both overflows are tested together. Returns false if a sum overflows. */
static bool add_cost(struct cost *to, const struct cost *what)
{
	return !(__builtin_add_overflow(to->size, what->size, &to->size) |
		 __builtin_add_overflow(to->count, what->count, &to->count));
}

static bool stands_for_others(const struct spread *spread)
{
	return spread->size.beyond > 0 || spread->count.beyond > 0;
}

static void add_to_process(struct lane_sum *lane, uint32_t origin, const struct spread *spread)
{
	struct spread *process = &lane->process[origin];

	if (!stands_for_others(spread))
		return;
	if (!stands_for_others(process))
		lane->used[lane->used_nr++] = origin;
	spread_add_alike(process, spread);
}

static void add_spreads(struct lane_sum *lane, const struct fleet_rows *rows)
{
	for (size_t i = 0; rows->spread && i < rows->nr; i++) {
		if (lane->process)
			add_to_process(lane, rows->row[i].origin, &rows->spread[i]);
		else
			spread_add(&lane->spread[rows->row[i].origin], &rows->spread[i]);
	}
}

static int end_process(void *what, unsigned int lane_nr, struct reason *why)
{
	struct lane_sum *lane = &((struct summing *)what)->lane[lane_nr];

	(void)why;
	for (size_t i = 0; i < lane->used_nr; i++) {
		uint32_t origin = lane->used[i];

		spread_add(&lane->spread[origin], &lane->process[origin]);
		lane->process[origin] = (struct spread){};
	}
	lane->used_nr = 0;
	return 0;
}

static int add_rows(void *what, unsigned int lane_nr, const struct fleet_snapshot *snapshot,
		    const struct fleet_rows *rows, struct reason *why)
{
	struct summing *summing = what;
	struct lane_sum *lane = &summing->lane[lane_nr];
	int err = make_lane_room(lane, summing, rows->spread);

	(void)snapshot;
	if (err)
		return err;
	for (size_t i = 0; i < rows->nr; i++)
		if (!add_cost(&lane->cost[rows->row[i].origin], &rows->row[i].cost))
			return cost_too_much(why);
	add_spreads(lane, rows);
	return 0;
}

/* ---- all lanes --------------------------------------------------------------------------------- */

/* Adds the lanes in their order, on which sums of doubles depend. */
static int add_lane(struct fleet_sum *sum, const struct lane_sum *lane, struct reason *why)
{
	for (uint32_t i = 0; lane->cost && i < sum->origin_nr; i++)
		if (!add_cost(&sum->cost[i], &lane->cost[i]))
			return cost_too_much(why);
	for (uint32_t i = 0; lane->spread && i < sum->origin_nr; i++)
		spread_add(&sum->sums[i].all, &lane->spread[i]);
	return 0;
}

bool cohort_has_samples(const struct cohort *cohort)
{
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		if (cohort->snapshot[i]->is_sampled)
			return true;
	return false;
}

static bool cohort_is_open(const struct cohort *cohort)
{
	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		if (cohort->snapshot[i]->gap_blocks.count || cohort->snapshot[i]->is_open)
			return true;
	return false;
}

/* The snapshots of a process come one after another. */
static double find_unseen_bytes(const struct cohort *cohort)
{
	double most = 0, process = 0;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		const struct fleet_snapshot *snapshot = cohort->snapshot[i];

		if (i && snapshot->process != cohort->snapshot[i - 1]->process)
			process = 0;
		process += snapshot->is_sampled ? snapshot->sample_bytes_most : 0;
		most = process > most ? process : most;
	}
	return most;
}

/* A block that was not chosen by chance is a sample, too: it stands for itself. */
static void finish_sums(struct fleet_sum *sum)
{
	for (uint32_t i = 0; i < sum->origin_nr; i++) {
		sum->sums[i].samples = sum->sums[i].apart_samples = sum->cost[i].count;
		sum->sums[i].apart = sum->sums[i].all;
	}
}

static int add_lanes(struct fleet_sum *sum, struct summing *summing, bool is_sampled,
		     struct reason *why)
{
	int err = 0;

	sum->cost = calloc(sum->origin_nr + 1ull, sizeof(*sum->cost));
	if (is_sampled)
		sum->sums = calloc(sum->origin_nr + 1ull, sizeof(*sum->sums));
	if (!sum->cost || (is_sampled && !sum->sums))
		return -ENOMEM;
	for (unsigned int i = 0; i < WALK_LANES && !err; i++) {
		err = add_lane(sum, &summing->lane[i], why);
		lane_sum_release(&summing->lane[i]);
	}
	if (!err && is_sampled)
		finish_sums(sum);
	return err;
}

struct fleet_sum fleet_sum_begin(const struct cohort *cohort)
{
	return (struct fleet_sum){ .unseen_bytes = find_unseen_bytes(cohort), .is_open = cohort_is_open(cohort) };
}

int fleet_sum_end(struct fleet_sum *sum, uint32_t origin_nr)
{
	size_t cost_alloc = sum->origin_nr, sums_alloc = sum->origin_nr;
	int err = array_reserve(&sum->cost, &cost_alloc, origin_nr + 1ull);

	if (!err && sum->sums)
		err = array_reserve(&sum->sums, &sums_alloc, origin_nr + 1ull);
	for (; !err && sum->origin_nr < origin_nr; sum->origin_nr++) {
		sum->cost[sum->origin_nr] = (struct cost){};
		if (sum->sums)
			sum->sums[sum->origin_nr] = (struct sums){};
	}
	if (!err && sum->sums)
		finish_sums(sum);
	return err;
}

int fleet_sum_make(const struct catalogue *catalogue, const struct cohort *cohort, uint32_t origin_nr,
		   struct fleet_sum *ret, struct reason *why)
{
	struct summing summing = {
		.origin_nr = origin_nr, .has_times = cohort->snapshot_nr > cohort->process_nr,
	};
	struct fleet_sum sum = fleet_sum_begin(cohort);
	const struct walk walk = {
		.catalogue = catalogue, .cohort = cohort, .origin_nr = origin_nr,
		.unit = WALK_BY_PROCESS, .visit = add_rows, .unit_end = end_process,
		.what = &summing,
	};
	int err = fleet_walk(&walk, why);

	sum.origin_nr = origin_nr;
	if (!err)
		err = add_lanes(&sum, &summing, cohort_has_samples(cohort), why);
	for (unsigned int i = 0; i < WALK_LANES; i++)
		lane_sum_release(&summing.lane[i]);
	if (!err) {
		*ret = sum;
		return 0;
	}
	fleet_sum_release(&sum);
	return err == -ENOMEM ? reason_set(why, err, "out of memory") : cohort_explain_error(err, &cohort, 1, why);
}

void fleet_sum_release(struct fleet_sum *sum)
{
	free(sum->cost);
	free(sum->sums);
	*sum = (struct fleet_sum){};
}
