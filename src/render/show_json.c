// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/rss_text.h"
#include "snapshot.h"

/* Whether a metadata value is a number: the value of these keys, and of keys that end in a unit. */
static bool is_number_key(const char *key)
{
	static const char *const keys[] = {
		"pid", "traceback_limit", "max_blocks", "min_size", "max_size",
		"max_overhead_percent", "max_overhead_core_percent", "thinned_ns", "sample_bytes_most", "probes_stepped",
	};
	static const char *const endings[] = { "_ns", "_bytes", "_ticks", "_count" };
	size_t len = strlen(key);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (len > strlen(endings[i]) && !strcmp(key + len - strlen(endings[i]), endings[i]))
			return true;
	return false;
}

static int set_metadata(json_t *metadata, const char *key, const char *value)
{
	uint64_t number;

	if (is_number_key(key) && !parse_count(value, 0, INT64_MAX, &number))
		return json_set_uint(metadata, key, number);
	return json_set_text(metadata, key, value);
}

static json_t *metadata_json(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *metadata = json_object();
	int err = 0;

	for (uint32_t i = 0; i < tables->metadata_nr && !err; i++)
		err = set_metadata(metadata, snapshot__string(snapshot, tables->metadata[i].key),
				   snapshot__string(snapshot, tables->metadata[i].value));
	return json_unless(err, metadata);
}

static json_t *counters_json(const struct snapshot *snapshot, enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *counters = json_object();
	int err = 0;

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++)
		if (tables->counter[i].kind == kind)
			err = json_set_uint(counters,
					    snapshot__string(snapshot, tables->counter[i].name),
					    tables->counter[i].value);
	return json_unless(err, counters);
}

static json_t *recorded_probe_json(const struct snapshot *snapshot, uint32_t at)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_probe *probe = &tables->probe[at];
	const struct snap_object *object = &tables->object[probe->object];
	json_t *row = json_object();
	int err = 0;

	if (object->path)
		err = json_set_text(row, "object", snapshot__string(snapshot, object->path));
	err = err ?: json_set_text(row, "function", snapshot__string(snapshot, probe->function));
	err = err ?: json_set_uint(row, "offset", probe->offset);
	err = err ?: json_set_uint(row, "placement", probe->placement);
	if (probe->instruction)
		err = err ?: json_set_text(row, "instruction",
					   snapshot__string(snapshot, probe->instruction));
	if (tables->probe_domain)
		err = err ?: json_set_uint(row, "domain", tables->probe_domain[at]);
	return json_unless(err, row);
}

static json_t *recorded_probes_json(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	json_t *probes = json_array();
	int err = 0;

	for (uint32_t i = 0; i < tables->probe_nr && !err; i++)
		if (json_array_append_new(probes, recorded_probe_json(snapshot, i)))
			err = -ENOMEM;
	return json_unless(err, probes);
}

static json_t *traced_json(const struct snapshot_facts *facts)
{
	json_t *traced = json_object();
	int err = json_set_uint(traced, "current", facts->current_bytes);

	if (facts->has_peak)
		err = err ?: json_set_uint(traced, "peak", facts->peak_bytes);
	return json_unless(err, traced);
}

static json_t *rss_json(const struct rss_facts *facts)
{
	json_t *rss = json_object();
	int err = json_set_uint(rss, "total", facts->total);

	err = err ?: json_set_uint(rss, "traced", facts->traced_resident);
	err = err ?: json_set_uint(rss, facts->is_close ? "heap_not_traced" : "anonymous_not_traced",
				   facts->untraced);
	for (int i = RSS_PART_HEAP + 1; i < RSS_PART_NR && !err; i++)
		if (facts->is_close || i == RSS_PART_FILES || i == RSS_PART_SHARED)
			err = json_set_uint(rss, rss_part_name(i), facts->part[i]);
	err = err ?: json_set_uint(rss, "traced_not_resident", facts->not_resident);
	err = err ?: json_set_uint(rss, "swap", facts->swap);
	if (facts->is_close)
		err = err ?: json_set_uint(rss, "huge", facts->huge);
	err = err ?: json_set_uint(rss, "age_ns", facts->age_ns);
	return json_unless(err, rss);
}

int json_set_rss(json_t *show, const struct snapshot *snapshot)
{
	struct rss_facts facts = rss_facts(snapshot);

	return facts.is_known ? json_set(show, "rss", rss_json(&facts)) : 0;
}

/* Blocks by how the stack walk ended, if unwind tables told it. */
static json_t *ends_json(const struct traceback_shares *shares)
{
	static const char *const name[] = {
#define X(NAME, name, meaning) #name,
		SNAP_TRACEBACK_ENDS(X)
#undef X
	};
	json_t *object = json_object();
	int err = 0;

	for (int end = SNAP_END_ROOT + 1; end < SNAP_END_NR && !err; end++)
		if (shares->end[end])
			err = json_set_uint(object, name[end], shares->end[end]);
	return json_unless(err, object);
}

json_t *json_traceback_shares(const struct traceback_shares *shares)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "complete", shares->end[SNAP_END_ROOT]);

	err = err ?: json_set(object, "stopped", ends_json(shares));
	err = err ?: json_set_uint(object, "ended", shares->ended);
	err = err ?: json_set_uint(object, "caller_only", shares->caller_only);
	err = err ?: json_set_uint(object, "limited", shares->limited);
	err = err ?: json_set_uint(object, "broken", shares->broken);
	err = err ?: json_set_uint(object, "none", shares->none);
	return json_unless(err, object);
}

/* Sets which blocks were recorded, if not all were. */
static int set_recorded(json_t *show, const struct snapshot *snapshot,
			const struct snapshot_facts *facts)
{
	uint64_t min = snapshot__metadata_u64(snapshot, "min_size", 0);
	uint64_t max = snapshot__metadata_u64(snapshot, "max_size", 0);
	json_t *filter = json_object();
	int err = 0;

	if (min)
		err = json_set_uint(filter, "min", min);
	if (max)
		err = err ?: json_set_uint(filter, "max", max);
	filter = json_unless(err, filter);
	if (min || max)
		err = json_set(show, "size_filter", filter);
	else
		json_decref(filter);
	if (!facts->is_estimated)
		return err;
	err = err ?: json_set_uint(show, "samples", facts->samples);
	return err ?: json_set(show, "sampling", json_sampling(snapshot));
}

int json_put_snapshot(FILE *out, const struct snapshot *snapshot)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	json_t *show = json_object();
	int err = json_set_text(show, "schema", "allocsnap.snapshot/1");

	err = err ?: json_set(show, "metadata", metadata_json(snapshot));
	err = err ?: json_set(show, "traced_memory", traced_json(&facts));
	err = err ?: json_set_rss(show, snapshot);
	err = err ?: json_set_uint(show, "blocks", facts.blocks);
	err = err ?: set_recorded(show, snapshot, &facts);
	err = err ?: json_set_gaps(show, snapshot);
	err = err ?: json_set_cost(show, snapshot);
	err = err ?: json_set(show, "counters", counters_json(snapshot, SNAP_COUNTED));
	err = err ?: json_set(show, "losses", counters_json(snapshot, SNAP_LOST));
	err = err ?: json_set(show, "probes", recorded_probes_json(snapshot));
	err = err ?: json_set(show, "tracebacks", json_traceback_shares(&facts.shares));
	err = json_put(out, json_unless(err, show), 0);
	if (!err && putc('\n', out) < 0)
		err = -errno ?: -EIO;
	return err;
}
