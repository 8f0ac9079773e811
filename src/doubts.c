// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doubts.h"

#include <inttypes.h>

#include "base/reason.h"
#include "render.h"
#include "snapshot.h"

static uint64_t gaps_ns(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t sum_ns = 0;

	/* None lies in another: the sum fits. */
	for (uint32_t i = 0; i < tables->gap_nr; i++)
		sum_ns += tables->gap[i].end_ns - tables->gap[i].start_ns;
	return sum_ns;
}

/* Of a measure that is not by block: what came in a gap is not in it. */
static bool warn_of_churn(const struct snapshot *snapshot, const struct engine_options *options,
			  const char *which, struct reason *ret)
{
	uint32_t nr = snapshot__tables(snapshot)->gap_nr;

	reason_set(ret, 0, "%swhat was %s in %" PRIu32 " gap%s of the recording, %.3f s together, is "
		   "not known", which, measure_name(options->measure), nr, nr == 1 ? "" : "s",
		   gaps_ns(snapshot) / 1e9);
	return true;
}

/* None that may be gone; but what was allocated then and is live is in no snapshot. */
static bool warn_of_missing(const struct snapshot *snapshot, const char *which, struct reason *ret)
{
	uint32_t nr = snapshot__tables(snapshot)->gap_nr;

	reason_set(ret, 0, "%sblocks that were allocated in %" PRIu32 " gap%s of the recording, %.3f s "
		   "together, are missing", which, nr, nr == 1 ? "" : "s", gaps_ns(snapshot) / 1e9);
	return true;
}

static bool warn_of_blocks(const struct snapshot *snapshot, const char *which,
			   const struct cost *blocks, struct reason *ret)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	uint32_t nr = snapshot__tables(snapshot)->gap_nr;
	char size[SIZE_TEXT_MAX];

	reason_set(ret, 0, "%s%s%" PRId64 " block%s of %s lived through a gap in the recording (%" PRIu32
		   " gap%s, %.3f s together) and may be gone; --no-gap-blocks leaves them out", which,
		   is_sampled ? "about " : "", blocks->count, blocks->count == 1 ? "" : "s",
		   size_text(size, blocks->size, false), nr, nr == 1 ? "" : "s",
		   gaps_ns(snapshot) / 1e9);
	return true;
}

bool gap_warning(const struct snapshot *snapshot, const struct engine_options *options,
		 const char *which, struct cost *ret_blocks, struct reason *ret)
{
	*ret_blocks = (struct cost){};
	if (!snapshot__tables(snapshot)->gap_nr)
		return false;
	if (options->measure)
		return warn_of_churn(snapshot, options, which, ret);
	if (snapshot_gap_blocks(snapshot, options, ret_blocks, NULL))
		return false; /* the answer fails, too */
	return ret_blocks->count ? warn_of_blocks(snapshot, which, ret_blocks, ret) :
				   warn_of_missing(snapshot, which, ret);
}

bool measure_warning(const struct snapshot *snapshot, const struct engine_options *options,
		     struct reason *ret)
{
	if (!options->measure || !snapshot__tables(snapshot)->trace_weight)
		return false;
	reason_set(ret, 0, "what was %s is an estimate of the recording, from samples: how far off it "
		   "may be is not known", measure_name(options->measure));
	return true;
}
