// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/doubts.h"

#include <inttypes.h>

#include "base/reason.h"
#include "render.h"
#include "render/facts.h"
#include "snapshot.h"

/* Warns about a measure that is not of live blocks: it lacks everything that happened in a gap. */
static bool warn_of_churn(const struct snapshot *snapshot, const struct engine_options *options,
			  const char *which, struct reason *ret)
{
	char gaps[GAPS_TEXT_MAX];

	reason_set(ret, 0, "%snothing was recorded in %s: what was %s then is not known", which,
		   gaps_text(gaps, snapshot), measure_name(options->measure));
	return true;
}

/* Warns about live blocks: blocks from a gap are missing, and blocks that lived through a gap may be gone. */
static bool warn_of_blocks(const struct snapshot *snapshot, const char *which,
			   const struct cost *blocks, struct reason *ret)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	char gaps[GAPS_TEXT_MAX], size[SIZE_TEXT_MAX];

	gaps_text(gaps, snapshot);
	if (!blocks->count)
		reason_set(ret, 0, "%snothing was recorded in %s: what was allocated then is missing",
			   which, gaps);
	else
		reason_set(ret, 0, "%snothing was recorded in %s: what was allocated then is missing, "
			   "and %s%" PRId64 " block%s of %s, older than the last gap, may be gone; "
			   "--no-gap-blocks leaves them out", which, gaps, is_sampled ? "about " : "",
			   blocks->count, blocks->count == 1 ? "" : "s",
			   size_text(size, blocks->size, false));
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
		return false;
	return warn_of_blocks(snapshot, which, ret_blocks, ret);
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
