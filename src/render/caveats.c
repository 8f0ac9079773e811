// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/caveats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "engine/leak_runtime.h"
#include "engine/told_samples.h"
#include "render.h"
#include "render/facts.h"
#include "snapshot.h"
#include "snapshot/snapshot_identity.h"

/* ---- of one snapshot ---------------------------------------------------------------------------- */

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
	const char *heaps = snapshot__metadata(snapshot, "unrecorded"), *go_rate = snapshot__metadata(snapshot, "go_rate");

	if (!heaps && go_rate && !strcmp(go_rate, "off"))
		heaps = "Go's heap since its program has set runtime.MemProfileRate to 0";
	if (heaps)
		reason_set(ret, 0, "not recorded, and in no row: %.400s", heaps);
	return heaps;
}

bool unjudged_java_warning(const struct snapshot *snapshot, struct reason *ret)
{
	uint64_t bytes = snapshot__metadata_u64(snapshot, "java_unjudged_bytes", 0);
	uint64_t whole = snapshot__metadata_u64(snapshot, "java_whole_gc_count", 0);
	char size[UNIT_TEXT_MAX];

	if (bytes)
		reason_set(ret, 0, "left out: %s of Java's objects that no collection of the whole heap has seen yet, so they may be garbage%s",
			   format_size(size, bytes, false), whole ? "" : ": there was no such collection; --java-gc asks for one before each snapshot");
	return bytes;
}

bool unseen_start_warning(const struct snapshot *snapshot, struct reason *ret)
{
	const char *count = snapshot__metadata(snapshot, "unseen_start_count");
	uint64_t ns = snapshot__metadata_u64(snapshot, "unseen_start_ns", 0);
	uint64_t bytes = snapshot__metadata_u64(snapshot, "unseen_start_bytes", 0);
	char size[UNIT_TEXT_MAX], blocks[96] = "";

	if (!ns)
		return false;
	if (count && !bytes)
		snprintf(blocks, sizeof(blocks), " (none of them a small object)");
	else if (count)
		snprintf(blocks, sizeof(blocks), " (%.20s small objects, %s, and others)", count, format_size(size, bytes, false));
	reason_set(ret, 0, "blocks from the program's first %.1f ms, before its Python began, are in no row%s; "
		   "'allocsnap run --domain python' records them", ns / 1e6, blocks);
	return true;
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

/* ---- of a difference ---------------------------------------------------------------------------- */

/* Writes the line; its value is true. */
#define warn(ret, ...) (!reason_set(ret, 0, __VA_ARGS__))

static const char *old_value(const struct comparison *pair, const char *key)
{
	return snapshot__metadata(pair->old, key);
}

static const char *new_value(const struct comparison *pair, const char *key)
{
	return snapshot__metadata(pair->new, key);
}

/* False if one of the snapshots lacks the value. */
static bool differs(const struct comparison *pair, const char *key)
{
	const char *old = old_value(pair, key), *new = new_value(pair, key);

	return old && new && strcmp(old, new);
}

static bool check_process(const struct comparison *pair, struct reason *ret)
{
	static const struct {
		const char *key, *name;
	} identity[] = {
		{ "host", "host" }, { "pid", "pid" }, { "boot_id", "boot" },
		{ "start_time_ticks", "start time" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(identity); i++)
		if (differs(pair, identity[i].key))
			return warn(ret, "the snapshots are of different processes: %s %.100s and "
					 "%.100s", identity[i].name,
				    old_value(pair, identity[i].key),
				    new_value(pair, identity[i].key));
	return false;
}

static const char *build_id_of(const struct snapshot *snapshot, const char *path)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 1; path && i < tables->object_nr; i++)
		if (tables->object[i].build_id &&
		    !strcmp(snapshot__string(snapshot, tables->object[i].path), path))
			return snapshot__string(snapshot, tables->object[i].build_id);
	return NULL;
}

static bool check_program(const struct comparison *pair, struct reason *ret)
{
	const char *old_id = build_id_of(pair->old, old_value(pair, "exe"));
	const char *new_id = build_id_of(pair->new, new_value(pair, "exe"));

	if (differs(pair, "exe"))
		return warn(ret, "the snapshots are of different programs: %.200s and %.200s",
			    old_value(pair, "exe"), new_value(pair, "exe"));
	if (!old_id || !new_id || !strcmp(old_id, new_id))
		return false;
	return warn(ret, "the snapshots are of different builds of %.200s: build-id %.64s and "
			 "%.64s; lines may have moved", new_value(pair, "exe"), old_id, new_id);
}

/* Here a missing value means every block, or all of them, so it differs from any other value. */
static bool differs_from_none(const struct comparison *pair, const char *key)
{
	return strcmp(old_value(pair, key) ?: "", new_value(pair, key) ?: "");
}

/* In one boot the monotonic clock says which is younger, and between boots there is only the wall clock. */
static bool check_pair_order(const struct comparison *pair, struct reason *ret)
{
	const struct moment old = snapshot_moment(pair->old), new = snapshot_moment(pair->new);
	bool same_boot = old.boot && old.boot == new.boot;
	uint64_t old_ns = same_boot ? old.monotonic_ns : old.wall_ns, new_ns = same_boot ? new.monotonic_ns : new.wall_ns;

	if (!old_ns || !new_ns || old_ns <= new_ns)
		return false;
	return warn(ret, "the first snapshot is %.3f s younger than the second: growth shows as "
			 "shrinking", (old_ns - new_ns) / 1e9);
}

static const char *rate_of(char text[64], const struct snapshot *snapshot)
{
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	char size[SIZE_TEXT_MAX];

	if (!bytes)
		return snapshot__metadata(snapshot, "sampler") ? "as the process sampled" : "every block";
	snprintf(text, 64, "one in %s", size_text(size, bytes, false));
	return text;
}

static bool check_pair_sampling(const struct comparison *pair, struct reason *ret)
{
	char old[64], new[64];

	/* The recorder changes the interval of a process that samples itself; each sample keeps its weight. */
	if (old_value(pair, "sampler_chosen_bytes") && !differs_from_none(pair, "sampler_chosen_bytes"))
		return false;
	if (!differs_from_none(pair, "sample_bytes") &&
	    (old_value(pair, "sample_bytes") || !old_value(pair, "sampler") == !new_value(pair, "sampler")))
		return false;
	return warn(ret, "the sampling rates differ: %s and %s",
		    rate_of(old, pair->old), rate_of(new, pair->new));
}

static bool check_old_gaps(const struct comparison *pair, struct reason *ret)
{
	return gap_warning(pair->old, pair->options, "the first snapshot: ", &pair->gap_blocks[0], ret);
}

static bool check_new_gaps(const struct comparison *pair, struct reason *ret)
{
	return gap_warning(pair->new, pair->options, "the second snapshot: ", &pair->gap_blocks[1], ret);
}

static bool check_measure(const struct comparison *pair, struct reason *ret)
{
	return measure_warning(pair->old, pair->options, ret) ||
	       measure_warning(pair->new, pair->options, ret);
}

/* Custom allocators are numbered in the order of their --probe options, so one number can mean two allocators. */
static bool check_domains(const struct comparison *pair, struct reason *ret)
{
	const struct snapshot_tables *tables = snapshot__tables(pair->old);

	for (uint32_t i = 0; i < tables->metadata_nr; i++) {
		const char *key = snapshot__string(pair->old, tables->metadata[i].key);

		if (!strncmp(key, "domain.", 7) && differs(pair, key))
			return warn(ret, "domain %.20s is %.100s in the first snapshot and %.100s in the "
					 "second", key + 7, old_value(pair, key), new_value(pair, key));
	}
	return false;
}

/* Whether a probe of the snapshot records the domain. */
static bool is_probed_domain(const struct snapshot_tables *tables, uint32_t domain)
{
	for (uint32_t i = 0; i < tables->probe_nr; i++)
		if (tables->probe_domain[i] == domain)
			return true;
	return false;
}

/* Finds a domain that is recorded in one snapshot and not in the other. */
static bool find_unprobed_domain(const struct snapshot_tables *in, const struct snapshot_tables *not_in, uint32_t *ret)
{
	for (uint32_t i = 0; i < in->probe_nr; i++) {
		*ret = in->probe_domain[i];
		if (!is_probed_domain(not_in, *ret))
			return true;
	}
	return false;
}

/* In one recording a domain begins when its library is loaded, and its growth is growth. */
static bool check_probed_domains(const struct comparison *pair, struct reason *ret)
{
	const struct snapshot_tables *old = snapshot__tables(pair->old), *new = snapshot__tables(pair->new);
	const char *name;
	uint32_t domain;
	bool is_in_new;

	if (!old->probe_domain || !new->probe_domain || !differs(pair, "recording_start_monotonic_ns"))
		return false;
	is_in_new = find_unprobed_domain(new, old, &domain);
	if (!is_in_new && !find_unprobed_domain(old, new, &domain))
		return false;
	name = snapshot__domain_name(is_in_new ? pair->new : pair->old, domain);
	return warn(ret, "domain %" PRIu32 "%s%.100s was recorded for the %s snapshot only: all of it shows as %s", domain,
		    name ? " " : "", name ?: "", is_in_new ? "second" : "first",
		    is_in_new ? "growth" : "shrinking");
}

static bool check_kept_lines(const struct comparison *pair, struct reason *ret)
{
	return (has_kept_lines(pair->old) || has_kept_lines(pair->new)) && warn(ret, "%s", KEPT_LINES_TEXT);
}

static bool check_unseen_heap(const struct comparison *pair, struct reason *ret)
{
	struct reason heaps;

	return (unseen_heap_warning(pair->new, &heaps) || unseen_heap_warning(pair->old, &heaps)) && warn(ret, "%s", heaps.text);
}

static bool check_doubt(const struct comparison *pair, struct reason *ret)
{
	struct reason doubt;

	return (told_samples_doubt(pair->new, &doubt) || told_samples_doubt(pair->old, &doubt)) && warn(ret, "%.500s", doubt.text);
}

/* Places that both snapshots have share their names. The others keep what they have. */
static bool check_names(const struct comparison *pair, int side, struct reason *ret)
{
	uint64_t nr = pair->unnamed[side].place_nr;

	return nr && warn(ret, "the %s snapshot has no lines for %.200s, the other one has: %" PRIu64 " place%s that "
			  "only the %s one has show%s without a line; 'allocsnap symbolize' adds them",
			  side ? "second" : "first", pair->unnamed[side].path, nr, nr == 1 ? "" : "s",
			  side ? "second" : "first", nr == 1 ? "s" : "");
}

static bool check_old_names(const struct comparison *pair, struct reason *ret)
{
	return check_names(pair, 0, ret);
}

static bool check_new_names(const struct comparison *pair, struct reason *ret)
{
	return check_names(pair, 1, ret);
}

static bool check_enlarged(const struct comparison *pair, struct reason *ret)
{
	const struct cost *diff = &pair->diff->total_diff;
	const struct estimate *estimate = pair->diff->total_estimate;
	char size[SIZE_TEXT_MAX];

	if (diff->size <= 0 || diff->count > 0)
		return false;
	if (estimate && (!estimate->has_intervals || estimate->size_diff.low <= 0))
		return false; /* the growth may be chance */
	return warn(ret, "hint: size grew by %s while count did not grow: blocks have become "
			 "bigger (a buffer that is enlarged), not more",
		    size_text(size, diff->size, false));
}

/* Recordings that were made in different ways: a value of the metadata that differs. */
struct difference {
	const char *key;
	const char *missing; /* what no value means, in words; NULL: a value that is missing differs from none */
	bool is_number;	     /* no value is 0 */
	const char *before, *after; /* of "… OLD and NEW …" */
};

static bool is_different(const struct comparison *pair, const struct difference *what)
{
	if (what->is_number)
		return snapshot__metadata_u64(pair->old, what->key, 0) !=
		       snapshot__metadata_u64(pair->new, what->key, 0);
	return what->missing ? differs_from_none(pair, what->key) : differs(pair, what->key);
}

static bool check_difference(const struct comparison *pair, const struct difference *what, struct reason *ret)
{
	const char *old = old_value(pair, what->key) ?: what->missing;
	const char *new = new_value(pair, what->key) ?: what->missing;

	return is_different(pair, what) && warn(ret, "%s%.150s and %.150s%s", what->before, old, new, what->after);
}

static const struct diff_check {
	bool (*check)(const struct comparison *pair, struct reason *ret); /* NULL: a difference */
	struct difference difference;
	bool is_of_stacks; /* matters only if more than the first frame of a traceback counts */
	bool is_hint;
} checks[] = {
	{ check_process }, { check_program },
	{ .difference = { "machine", .before = "the snapshots are of different machines, ",
			  .after = ": frames without a line match by function only" } },
	{ .difference = { "source", "allocsnap", .before = "the snapshots are of different kinds: ", .after = "" } },
	{ check_pair_order },
	{ .difference = { "traceback_limit", .before = "the traceback limits differ, ",
			  .after = ": longer tracebacks do not match" }, .is_of_stacks = true },
	{ check_pair_sampling },
	{ .difference = { "min_size", "0", true, "the smallest blocks that were recorded differ: of ", " bytes" } },
	{ .difference = { "max_size", "any", true, "the largest blocks that were recorded differ: of ", " bytes" } },
	{ check_measure }, { check_old_gaps }, { check_new_gaps },
	{ .difference = { "filters", "all", .before = "the snapshots do not hold the same part of their blocks: ",
			  .after = "" } },
	{ check_domains }, { check_probed_domains },
	{ .difference = { "unwinder", .before = "the unwinders differ, ",
			  .after = ": the same stack may have two tracebacks" } },
	{ .difference = { "python_frames", .before = "the frames of CPython's blocks differ, ",
			  .after = ": the same stack has two tracebacks" } },
	{ check_kept_lines }, { check_unseen_heap }, { check_doubt },
	{ check_old_names }, { check_new_names }, { check_enlarged, .is_hint = true },
};
_Static_assert(ARRAY_SIZE(checks) <= WARNINGS_MAX, "room for every check");

static bool run_check(const struct diff_check *check, const struct comparison *pair, struct reason *ret)
{
	if (check->is_of_stacks && pair->diff->key_type != KEY_TRACEBACK && !pair->diff->cumulative)
		return false;
	return check->check ? check->check(pair, ret) : check_difference(pair, &check->difference, ret);
}

void compare_warnings(const struct comparison *comparison, struct warnings *ret)
{
	*ret = (struct warnings){};
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct reason *text = &ret->text[ret->nr];

		if (!(checks[i].is_hint && ret->nr) && run_check(&checks[i], comparison, text))
			ret->line[ret->nr++] = text->text;
	}
}
