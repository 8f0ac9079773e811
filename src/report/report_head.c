// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "engine/estimate.h"
#include "render/facts.h"
#include "render/json_parts.h"
#include "snapshot.h"

#define GAPS_MAX 1000 /* a page is some 1,000 pixels wide */

/* ---- a snapshot ----------------------------------------------------------------------------------------------- */

/* Only what is above 0. */
static void emit_counters_above_0(struct emitter *out, const char *key, const struct snapshot *snapshot,
				  enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	emit_object(out, key);
	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (tables->counter[i].kind == kind && tables->counter[i].value)
			emit_uint(out, snapshot__string(snapshot, tables->counter[i].name), tables->counter[i].value);
	emit_end(out);
}

static void emit_sampling_head(struct emitter *out, const struct snapshot *snapshot)
{
	if (!snapshot__tables(snapshot)->trace_weight)
		return;
	emit_object(out, "sampling");
	emit_uint(out, "bytes", snapshot__metadata_u64(snapshot, "sample_bytes", 0));
	emit_uint(out, "unseen_bytes", snapshot__metadata_u64(snapshot, "sample_bytes_most", 0));
	if (snapshot__tables(snapshot)->gap_nr)
		emit_uint(out, "has_gaps", 1);
	if (snapshot_samples_pools(snapshot))
		emit_uint(out, "has_pools", 1);
	emit_end(out);
}

static void emit_gap_blocks(struct emitter *out, const struct snapshot *snapshot, const struct engine_options *options)
{
	struct cost cost = {};
	int err;

	if (!snapshot__tables(snapshot)->gap_nr)
		return;
	err = snapshot_gap_blocks(snapshot, options, &cost, NULL);
	if (err == -ENODATA || (!err && !cost.count))
		return; /* it does not say when its blocks were born */
	emit_err(out, err);
	emit_object(out, "gap_blocks");
	emit_sizes(out, &cost, NULL);
	emit_end(out);
}

/* Numbers of the metadata, which may be missing. */
static void emit_number(struct emitter *out, const struct snapshot *snapshot, const char *key)
{
	uint64_t number = snapshot__metadata_u64(snapshot, key, UINT64_MAX);

	if (number != UINT64_MAX)
		emit_uint(out, key, number);
}

static void emit_moment(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);

	if (wall_ns)
		emit_uint(out, "wall_ms", wall_ns / 1000000);
	emit_number(out, snapshot, "monotonic_ns");
	emit_number(out, snapshot, "recording_start_monotonic_ns");
	emit_text(out, "trigger", snapshot__metadata(snapshot, "trigger"));
	emit_text(out, "end", snapshot__metadata(snapshot, "end"));
}

int report_snapshot_head(const struct snapshot *snapshot, const char *name, const struct engine_options *options,
			 json_t **ret)
{
	struct emitter out = emit_to(NULL, true);
	struct snapshot_facts facts = snapshot_facts(snapshot);
	const char *slash = strrchr(name, '/');

	emit_text(&out, "name", slash ? slash + 1 : name);
	emit_moment(&out, snapshot);
	emit_object(&out, "traced");
	emit_uint(&out, "current", facts.current_bytes);
	if (facts.has_peak)
		emit_uint(&out, "peak", facts.peak_bytes);
	emit_end(&out);
	emit_uint(&out, "blocks", facts.blocks);
	emit_rss(&out, snapshot);
	emit_cost(&out, snapshot);
	emit_counters_above_0(&out, "losses", snapshot, SNAP_LOST);
	emit_counters_above_0(&out, "counters", snapshot, SNAP_COUNTED);
	emit_tracebacks(&out, &facts);
	emit_gap_blocks(&out, snapshot, options);
	emit_sampling_head(&out, snapshot);
	return emit_value_of(&out, ret);
}

/* ---- the process ---------------------------------------------------------------------------------------------- */

int report_process_head(const struct snapshot *snapshot, json_t **ret)
{
	static const char *const texts[] = {
		"host", "comm", "exe", "cmdline", "kernel", "cgroup", "unwinder", "allocsnap_version", "unrecorded",
	};
	static const char *const numbers[] = {
		"pid", "traceback_limit", "rss_at_start_bytes", "recording_start_monotonic_ns", "sample_bytes",
		"min_size", "max_size", "max_overhead_percent", "max_overhead_core_percent",
	};
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct emitter out = emit_to(NULL, true);

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		emit_text(&out, texts[i], snapshot__metadata(snapshot, texts[i]));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		emit_number(&out, snapshot, numbers[i]);
	emit_object(&out, "labels");
	for (uint32_t i = 0; i < tables->metadata_nr; i++) {
		const char *key = snapshot__string(snapshot, tables->metadata[i].key);

		if (!strncmp(key, "label.", 6))
			emit_text(&out, key + 6, snapshot__string(snapshot, tables->metadata[i].value));
	}
	emit_end(&out);
	return emit_value_of(&out, ret);
}

/* ---- gaps ----------------------------------------------------------------------------------------------------- */

static int compare_gap_distance(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* Gaps with less time between them are joined, so that at most GAPS_MAX are left. 0: none are. */
static int find_shown_distance(const struct snap_gap *gap, uint32_t gap_nr, uint64_t *ret_ns)
{
	uint64_t *distance;

	*ret_ns = 0;
	if (gap_nr <= GAPS_MAX)
		return 0;
	distance = calloc(gap_nr, sizeof(*distance));
	if (!distance)
		return -ENOMEM;
	for (uint32_t i = 1; i < gap_nr; i++)
		distance[i - 1] = gap[i].start_ns - gap[i - 1].end_ns;
	qsort(distance, gap_nr - 1, sizeof(*distance), compare_gap_distance);
	*ret_ns = distance[gap_nr - GAPS_MAX - 1] + 1;
	free(distance);
	return 0;
}

static int append_gap(json_t *gaps, uint64_t start_ns, uint64_t end_ns)
{
	json_t *gap = json_object();
	int err = json_set_uint(gap, "start_ns", start_ns) ?: json_set_uint(gap, "end_ns", end_ns);

	gap = json_unless(err, gap);
	return !gap || json_array_append_new(gaps, gap) ? -ENOMEM : 0;
}

int report_set_gaps(json_t *report, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *gaps = json_array();
	uint32_t joined = 0;
	uint64_t shown_ns;
	int err = find_shown_distance(tables->gap, tables->gap_nr, &shown_ns);

	for (uint32_t i = 0; i < tables->gap_nr && !err; i++) {
		uint64_t start_ns = tables->gap[i].start_ns;

		for (; i + 1 < tables->gap_nr && tables->gap[i + 1].start_ns - tables->gap[i].end_ns < shown_ns; i++)
			joined++;
		err = append_gap(gaps, start_ns, tables->gap[i].end_ns);
	}
	if (joined)
		err = err ?: json_set_uint(report, "gaps_joined", joined);
	return json_set(report, "gaps", json_unless(err, gaps));
}
