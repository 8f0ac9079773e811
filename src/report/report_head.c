// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "report/report_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "render/facts.h"
#include "render/json_parts.h"
#include "snapshot.h"

#define GAPS_MAX 1000 /* a page is some 1,000 pixels wide */

/* ---- a snapshot ----------------------------------------------------------------------------------------------- */

static json_t *traced_head(const struct snapshot_facts *facts)
{
	json_t *traced = json_object();
	int err = json_set_uint(traced, "current", facts->current_bytes);

	if (facts->has_peak)
		err = err ?: json_set_uint(traced, "peak", facts->peak_bytes);
	return json_unless(err, traced);
}

/* Only what is above 0. */
static json_t *counters_head(const struct snapshot *snapshot, enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *counters = json_object();
	int err = 0;

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++)
		if (tables->counter[i].kind == kind && tables->counter[i].value)
			err = json_set_uint(counters, snapshot__string(snapshot, tables->counter[i].name),
					    tables->counter[i].value);
	return json_unless(err, counters);
}

static int set_sampling_head(json_t *head, const struct snapshot *snapshot)
{
	json_t *sampling;
	int err;

	if (!snapshot__tables(snapshot)->trace_weight)
		return 0;
	sampling = json_object();
	err = json_set_uint(sampling, "bytes", snapshot__metadata_u64(snapshot, "sample_bytes", 0)) ?:
	      json_set_uint(sampling, "unseen_bytes", snapshot__metadata_u64(snapshot, "sample_bytes_most", 0));
	if (snapshot__tables(snapshot)->gap_nr)
		err = err ?: json_set_uint(sampling, "has_gaps", 1);
	if (snapshot_samples_pools(snapshot))
		err = err ?: json_set_uint(sampling, "has_pools", 1);
	return json_set(head, "sampling", json_unless(err, sampling));
}

static int set_gap_blocks(json_t *head, const struct snapshot *snapshot, const struct engine_options *options)
{
	struct cost cost = {};
	json_t *blocks;
	int err;

	if (!snapshot__tables(snapshot)->gap_nr)
		return 0;
	err = snapshot_gap_blocks(snapshot, options, &cost, NULL);
	if (err == -ENODATA || (!err && !cost.count))
		return 0; /* it does not say when its blocks were born */
	if (err)
		return err;
	blocks = json_object();
	err = json_set_int(blocks, "size", cost.size) ?: json_set_int(blocks, "count", cost.count);
	return json_set(head, "gap_blocks", json_unless(err, blocks));
}

/* Numbers of the metadata, which may be missing. */
static int set_number(json_t *head, const struct snapshot *snapshot, const char *key)
{
	uint64_t number = snapshot__metadata_u64(snapshot, key, UINT64_MAX);

	return number == UINT64_MAX ? 0 : json_set_uint(head, key, number);
}

static int set_moment(json_t *head, const struct snapshot *snapshot)
{
	uint64_t wall_ns = snapshot__metadata_u64(snapshot, "wall_ns", 0);
	int err = wall_ns ? json_set_uint(head, "wall_ms", wall_ns / 1000000) : 0;

	return err ?: set_number(head, snapshot, "monotonic_ns") ?:
	       set_number(head, snapshot, "recording_start_monotonic_ns") ?:
	       json_set_text(head, "trigger", snapshot__metadata(snapshot, "trigger")) ?:
	       json_set_text(head, "end", snapshot__metadata(snapshot, "end"));
}

int report_snapshot_head(const struct snapshot *snapshot, const char *name, const struct engine_options *options,
			 json_t **ret)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	const char *slash = strrchr(name, '/');
	json_t *head = json_object();
	int err = json_set_text(head, "name", slash ? slash + 1 : name);

	err = err ?: set_moment(head, snapshot) ?: json_set(head, "traced", traced_head(&facts)) ?:
	      json_set_uint(head, "blocks", facts.blocks) ?: json_set_rss(head, snapshot) ?:
	      json_set_cost(head, snapshot) ?: json_set(head, "losses", counters_head(snapshot, SNAP_LOST)) ?:
	      json_set(head, "counters", counters_head(snapshot, SNAP_COUNTED)) ?:
	      json_set(head, "tracebacks", json_traceback_shares(&facts.shares)) ?:
	      set_gap_blocks(head, snapshot, options) ?: set_sampling_head(head, snapshot);
	*ret = json_unless(err, head);
	return err;
}

/* ---- the process ---------------------------------------------------------------------------------------------- */

static int set_process_texts(json_t *process, const struct snapshot *snapshot)
{
	static const char *const keys[] = {
		"host", "comm", "exe", "cmdline", "kernel", "cgroup", "unwinder", "allocsnap_version", "unrecorded",
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && !err; i++)
		err = json_set_text(process, keys[i], snapshot__metadata(snapshot, keys[i]));
	return err;
}

static int set_numbers(json_t *process, const struct snapshot *snapshot)
{
	static const char *const keys[] = {
		"pid", "traceback_limit", "rss_at_start_bytes", "recording_start_monotonic_ns", "sample_bytes",
		"min_size", "max_size", "max_overhead_percent", "max_overhead_core_percent",
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(keys) && !err; i++)
		err = set_number(process, snapshot, keys[i]);
	return err;
}

/* "label.NAME" of the metadata. */
static json_t *labels_head(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *labels = json_object();
	int err = 0;

	for (uint32_t i = 0; i < tables->metadata_nr && !err; i++) {
		const char *key = snapshot__string(snapshot, tables->metadata[i].key);

		if (!strncmp(key, "label.", 6))
			err = json_set_text(labels, key + 6, snapshot__string(snapshot, tables->metadata[i].value));
	}
	return json_unless(err, labels);
}

int report_process_head(const struct snapshot *snapshot, json_t **ret)
{
	json_t *process = json_object();
	int err = set_process_texts(process, snapshot) ?: set_numbers(process, snapshot) ?:
		  json_set(process, "labels", labels_head(snapshot));

	*ret = json_unless(err, process);
	return err;
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
