// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/caveats.h"

#include <inttypes.h>

#include "base/reason.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "render.h"
#include "render/facts.h"
#include "render/show.h"
#include "snapshot.h"

/* `show`: the times when nothing was recorded. */

#define LATEST_NR 5 /* shown as text */

/* In a long recording the table has the latest gaps only; the metadata count all of them. */
static uint64_t unrecorded_ns(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t ns = snapshot__metadata_u64(snapshot, "gaps_ns", 0), sum_ns = 0;

	/* Gaps do not overlap, so the sum fits. */
	for (uint32_t i = 0; i < tables->gap_nr; i++)
		sum_ns += tables->gap[i].end_ns - tables->gap[i].start_ns;
	return ns < sum_ns ? sum_ns : ns;
}

const char *gaps_text(char text[GAPS_TEXT_MAX], const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t nr = snapshot__metadata_u64(snapshot, "gap_count", 0);
	uint64_t ns = unrecorded_ns(snapshot), all_ns = snapshot_recorded_ns(snapshot);
	int len;

	if (nr < tables->gap_nr)
		nr = tables->gap_nr;
	len = snprintf(text, GAPS_TEXT_MAX, "%" PRIu64 " gap%s, %.3f s%s", nr, nr == 1 ? "" : "s",
		       ns / 1e9, nr == 1 ? "" : " together");
	if (all_ns)
		snprintf(text + len, GAPS_TEXT_MAX - len, ", %.1f %% of the recording",
			 100.0 * ns / all_ns);
	return text;
}

static void emit_gap(struct emitter *out, const struct snapshot *snapshot, const struct snap_gap *gap, bool is_latest)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);
	double length = (gap->end_ns - gap->start_ns) / 1e9;

	emit_object(out, NULL);
	emit_uint(out, "start_ns", gap->start_ns);
	emit_uint(out, "end_ns", gap->end_ns);
	emit_end(out);
	if (is_latest && now_ns < gap->end_ns) /* the snapshot's time is missing or hostile */
		emit_line(out, "  %.3f s from %.3f s on the monotonic clock", length, gap->start_ns / 1e9);
	else if (is_latest)
		emit_line(out, "  %.3f s, %.3f s before the snapshot", length, (now_ns - gap->start_ns) / 1e9);
}

void emit_gaps(struct emitter *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint32_t from = tables->gap_nr > LATEST_NR ? tables->gap_nr - LATEST_NR : 0;
	char text[GAPS_TEXT_MAX];

	if (!tables->gap_nr)
		return;
	emit_line(out, "nothing was recorded in %s", gaps_text(text, snapshot));
	if (from)
		emit_line(out, "  the last %d:", LATEST_NR);
	emit_list(out, "gaps");
	for (uint32_t i = 0; i < tables->gap_nr; i++)
		emit_gap(out, snapshot, &tables->gap[i], i >= from);
	emit_end(out);
}

/* "recorded 14.2 % of the time", or "nothing was recorded in 7 gaps, 7.000 s together" if the time is not known. */
static const char *recorded_text(char text[GAPS_TEXT_MAX + 32], const struct snapshot *snapshot)
{
	uint64_t all_ns = snapshot_recorded_ns(snapshot), ns = unrecorded_ns(snapshot);
	char gaps[GAPS_TEXT_MAX];

	if (all_ns && ns <= all_ns)
		snprintf(text, GAPS_TEXT_MAX + 32, "recorded %.1f %% of the time", 100.0 * (all_ns - ns) / all_ns);
	else
		snprintf(text, GAPS_TEXT_MAX + 32, "nothing was recorded in %s", gaps_text(gaps, snapshot));
	return text;
}

/* Warns about a measure that is not of live blocks: it lacks everything that happened in a gap. */
static bool warn_of_churn(const struct snapshot *snapshot, const struct engine_options *options,
			  const char *which, struct reason *ret)
{
	char recorded[GAPS_TEXT_MAX + 32];

	reason_set(ret, 0, "%s%s: what was %s in gaps is not known", which, recorded_text(recorded, snapshot),
		   measure_name(options->measure));
	return true;
}

/* Warns about live blocks: blocks from a gap are missing, and blocks that lived through a gap may be gone. */
static bool warn_of_blocks(const struct snapshot *snapshot, const char *which,
			   const struct cost *blocks, struct reason *ret)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	char recorded[GAPS_TEXT_MAX + 32], size[SIZE_TEXT_MAX];

	recorded_text(recorded, snapshot);
	if (!blocks->count)
		reason_set(ret, 0, "%s%s: blocks from gaps are missing", which, recorded);
	else
		reason_set(ret, 0, "%s%s: blocks from gaps are missing, and %s%" PRId64 " (%s) may be gone; "
			   "--no-gap-blocks leaves them out", which, recorded, is_sampled ? "about " : "",
			   blocks->count, size_text(size, blocks->size, false));
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

bool unseen_heap_warning(const struct snapshot *snapshot, struct reason *ret)
{
	const char *heaps = snapshot__metadata(snapshot, "unrecorded");

	if (heaps)
		reason_set(ret, 0, "not recorded, and in no row: %.400s", heaps);
	return heaps;
}

bool unrecorded_reason(const struct snapshot *old, const struct snapshot *new, struct reason *ret)
{
	const struct unrecorded unrecorded = snapshots_unrecorded(old, new);
	char missing[UNIT_TEXT_MAX], all[UNIT_TEXT_MAX];

	if (!unrecorded.ns)
		return false;
	reason_set(ret, 0, "between the snapshots %s, for %s of %s: what was allocated and freed then is not known",
		   unrecorded.is_other_recording ? "one recording ended and another began" : "the recording paused",
		   format_seconds(missing, unrecorded.ns), format_seconds(all, unrecorded.of_ns));
	return true;
}
