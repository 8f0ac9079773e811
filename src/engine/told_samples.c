// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/told_samples.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/reason.h"

#define SHARE_MOST 0.01	  /* of frees or samples that do not fit: threads that race make a few */
#define FREES_FEW 2
#define DISTANCES_MANY 4 /* a block of so many distances has a weight of 1.02 of its size at most */
#define SAMPLES_LEAST 8	  /* of each kind, to judge weights by */
#define EXCESS_MOST 0.25  /* of the mean weight of large blocks: a sampler that counts whole samples is off by chance */
#define TICK_NS (SECOND_NS / 100) /* of start_time_ticks: USER_HZ */

/* It reports no frees at all (src/collect/sources/sampler_source.c). */
static bool tells_no_frees(const struct snapshot *snapshot, struct reason *ret)
{
	if (!snapshot__metadata(snapshot, "sampler_frees"))
		return false;
	reason_set(ret, 0, "the process's own sampler reports no frees: what is live is not known, and '--measure allocated' has "
		   "what was allocated; '--no-sampler' records every block");
	return true;
}

/* A block at the address of another one: the free of that one was not reported. */
static bool misses_frees(const struct snapshot *snapshot, struct reason *ret)
{
	uint64_t replaced = snapshot__counter(snapshot, "blocks_replaced"), all = snapshot__counter(snapshot, "reported_samples");

	if (replaced <= FREES_FEW || replaced <= SHARE_MOST * all)
		return false;
	reason_set(ret, 0, "the process's own sampler does not report all frees: %" PRIu64 " of %" PRIu64 " blocks that it reported "
		   "have the address of one that it had not reported as freed; '--no-sampler' records every block", replaced, all);
	return true;
}

/*
 * Frees of blocks from before are known to be no others only where the recording began with the process, and its traces were
 * never cleared. The process's start has the time of suspends in it, and the recording's has not: where the recording seems
 * to have begun earlier, nothing is known.
 */
static bool began_with_process(const struct snapshot *snapshot)
{
	uint64_t started_ns = snapshot__metadata_u64(snapshot, "start_time_ticks", 0) * TICK_NS;
	uint64_t recorded_ns = snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", 0);

	return !snapshot__metadata_u64(snapshot, "clear_count", 0) && recorded_ns + SECOND_NS >= started_ns &&
	       recorded_ns <= started_ns + SECOND_NS;
}

static bool frees_others(const struct snapshot *snapshot, struct reason *ret)
{
	uint64_t unknown = snapshot__counter(snapshot, "unknown_frees"), all = snapshot__counter(snapshot, "reported_samples");

	if (unknown <= FREES_FEW || unknown <= snapshot__counter(snapshot, "skipped_samples") + SHARE_MOST * all || !began_with_process(snapshot))
		return false;
	reason_set(ret, 0, "the process's own sampler reports frees of %" PRIu64 " blocks that it has not reported (it has reported %"
		   PRIu64 "), so as many others seem to live; '--no-sampler' records every block", unknown, all);
	return true;
}

struct weights_seen {
	double distance_most; /* by blocks that are much smaller than it */
	uint64_t small_nr;
	double large_weight; /* sum of weights, in sizes, of blocks that are much larger */
	uint64_t large_nr;
};

static void look_at_small(struct weights_seen *seen, struct snap_trace trace)
{
	if (trace.weight < DISTANCES_MANY)
		return;
	seen->distance_most = fmax(seen->distance_most, (trace.weight - 0.5) * trace.size);
	seen->small_nr++;
}

static void look_at_large(struct weights_seen *seen, struct snap_trace trace)
{
	if (trace.size < DISTANCES_MANY * seen->distance_most)
		return;
	seen->large_weight += trace.weight;
	seen->large_nr++;
}

static bool weights_are_wrong(const struct snapshot *snapshot, struct reason *ret)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct weights_seen seen = {};

	for (uint64_t i = 0; i < tables->trace_nr; i++)
		look_at_small(&seen, snapshot__trace(snapshot, i));
	for (uint64_t i = 0; i < tables->trace_nr && seen.small_nr >= SAMPLES_LEAST; i++)
		look_at_large(&seen, snapshot__trace(snapshot, i));
	if (seen.large_nr < SAMPLES_LEAST || seen.large_weight <= (1 + EXCESS_MOST) * seen.large_nr)
		return false;
	reason_set(ret, 0, "the process's own sampler reports weights that cannot be: blocks of %d distances and more stand for %.2f "
		   "times their size each, and should for 1.02 at most; '--no-sampler' records every block", DISTANCES_MANY,
		   seen.large_weight / seen.large_nr);
	return true;
}

/* A recording does not see the frees in its gaps. */
static bool frees_are_wrong(const struct snapshot *snapshot, struct reason *ret)
{
	return !snapshot__tables(snapshot)->gap_nr && !snapshot__metadata_u64(snapshot, "gap_count", 0) &&
	       (frees_others(snapshot, ret) || misses_frees(snapshot, ret));
}

bool told_samples_doubt(const struct snapshot *snapshot, struct reason *ret)
{
	const char *weights = snapshot__metadata(snapshot, "sampler_weights");

	return weights && strcmp(weights, "exact") &&
	       (tells_no_frees(snapshot, ret) || frees_are_wrong(snapshot, ret) || weights_are_wrong(snapshot, ret));
}
