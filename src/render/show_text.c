// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "engine/leak_runtime.h"
#include "engine/leak_runtime.h"
#include "render/caveats.h"
#include "render/clean.h"
#include "render/statistic_text.h"
#include "render/facts.h"
#include "render/formats.h"
#include "snapshot.h"

#define NAME_WIDTH 30

#define VALUE_SHOWN 500

/* Cuts a long value: a process's arguments, for example, may be megabytes. JSON has the whole value. */
static int put_metadata_value(FILE *out, const char *name, const char *value)
{
	size_t len = strlen(value), shown = VALUE_SHOWN;

	if (len <= VALUE_SHOWN)
		return put_line(out, "  %-*s %s", NAME_WIDTH, name, value);
	for (int i = 0; i < 3 && (value[shown] & 0xc0) == 0x80; i++)
		shown--; /* do not cut inside a character */
	return put_line(out, "  %-*s %.*s… (%zu bytes)", NAME_WIDTH, name, (int)shown, value, len);
}

static int put_metadata(FILE *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	int err = put_toned_line(out, TONE_HEAD, "metadata");

	for (uint32_t i = 0; i < tables->metadata_nr && !err; i++)
		err = put_metadata_value(out, snapshot__string(snapshot, tables->metadata[i].key),
					 snapshot__string(snapshot, tables->metadata[i].value));
	if (!err && !tables->metadata_nr)
		err = put_line(out, "  not recorded");
	return err;
}

static int put_bytes(FILE *out, const char *name, uint64_t bytes)
{
	char text[UNIT_TEXT_MAX];

	return put_line(out, "  %-*s %" PRIu64 " (%s)", NAME_WIDTH, name, bytes,
			format_size(text, bytes, false));
}

static int put_estimated_from(FILE *out, const struct snapshot *snapshot,
			      const struct snapshot_facts *facts)
{
	char rate[RATE_TEXT_MAX];

	if (!facts->is_estimated)
		return 0;
	rate_text(rate, snapshot);
	return put_line(out, "  estimated from %" PRIu64 " sampled block%s%s%s%s", facts->samples,
			facts->samples == 1 ? "" : "s", *rate ? ", " : "", rate,
			snapshot_samples_pools(snapshot) ? ": a pool counts for the line that took it" : "");
}

/* Writes which sizes of blocks were recorded, if not all were. */
static int put_size_filter(FILE *out, const struct snapshot *snapshot)
{
	uint64_t min = snapshot__metadata_u64(snapshot, "min_size", 0);
	uint64_t max = snapshot__metadata_u64(snapshot, "max_size", 0);
	char least[UNIT_TEXT_MAX], most[UNIT_TEXT_MAX];

	if (!min && !max)
		return 0;
	format_size(least, min, false);
	format_size(most, max, false);
	return put_line(out, "  only blocks of %s%s%s%s were recorded", min ? least : "",
			min ? max ? " to " : " or more" : "", max ? most : "",
			min ? "" : " or less");
}

/* Samples that the process took itself do not include everything. Files of before "sampler_kind" name the rest only. */
static int put_sampler(FILE *out, const struct snapshot *snapshot)
{
	const char *path = snapshot__metadata(snapshot, "sampler");
	const char *unseen = snapshot__metadata(snapshot, "sampler_unseen");
	const char *left_out = snapshot__metadata(snapshot, "heap_not_recorded");
	bool names_all = unseen && snapshot__metadata(snapshot, "sampler_kind");

	if (left_out)
		return put_line(out, "  blocks of the heap are not recorded: %s", left_out);
	if (!path)
		return 0;
	return put_line(out, "  samples taken in the process by %s; not sampled: %s%s%s", path,
			names_all ? "" : "blocks of 0 bytes, blocks from before", unseen && !names_all ? ", " : "",
			unseen ?: "");
}

/* The recorder keeps their number to what it may be, by a larger interval. */
static int put_sampler_intervals(FILE *out, const struct snapshot *snapshot)
{
	uint64_t chosen = snapshot__metadata_u64(snapshot, "sampler_chosen_bytes", 0);
	uint64_t most = snapshot__metadata_u64(snapshot, "sample_bytes_most", 0);
	char now_text[UNIT_TEXT_MAX], chosen_text[UNIT_TEXT_MAX], most_text[UNIT_TEXT_MAX];

	if (!chosen || most <= chosen)
		return 0;
	format_size(now_text, snapshot__metadata_u64(snapshot, "sample_bytes", 0), false);
	format_size(chosen_text, chosen, false);
	format_size(most_text, most, false);
	return put_line(out, "  chosen: one sample in %s; to limit their cost, one in %s for a time, one in %s now",
			chosen_text, most_text, now_text);
}

static int put_injection(FILE *out, const struct snapshot *snapshot)
{
	uint64_t stopped_ns = snapshot__metadata_u64(snapshot, "sampler_stopped_ns", 0);

	return !stopped_ns ? 0 : put_line(out, "  to inject the sampler, the threads were stopped for %.1f ms",
					  stopped_ns / 1e6);
}

/* Which of two views of a Python it is, and how to have the other one. Files of before "domains" do not tell. */
static int put_python_view(FILE *out, const struct snapshot *snapshot)
{
	const char *domains = snapshot__metadata(snapshot, "domains");
	const char *why_not = snapshot__metadata(snapshot, "python_not_recorded");
	const char *exe = snapshot__metadata(snapshot, "exe") ?: "", *slash = strrchr(exe, '/');

	if (has_heap_beside(snapshot))
		return put_line(out, "  the heap of the process, and pools of Python's small objects, at Python's lines; for each object: "
				"'leaks PID', or --domain python");
	if (domains && !strncmp(domains, "python", strlen("python")))
		return put_line(out, "  Python's objects, at Python's lines%s; for the heap of the process: --domain malloc",
				has_kept_lines(snapshot) ? " (in memory of free lists, that of the first object)" : "");
	if (why_not)
		return put_line(out, "  the heap of the process, not Python's objects: %s", why_not);
	if (domains && !strncmp(slash ? slash + 1 : exe, "python", strlen("python")))
		return put_line(out, "  the heap of the process; for Python's objects, at Python's lines: --domain python");
	return 0;
}

/* Python's small objects that have no traceback: they were there before. */
static int put_older_python(FILE *out, const struct snapshot *snapshot)
{
	const char *count = snapshot__metadata(snapshot, "python_older_count");
	const char *bytes = snapshot__metadata(snapshot, "python_older_bytes");

	return !count || !bytes ? 0 : put_line(out, "  older than the recording: %s %s of Python, %s bytes", count,
					       snapshot_samples_pools(snapshot) ? "pools" : "objects", bytes);
}

static int put_memory(FILE *out, const struct snapshot *snapshot,
		      const struct snapshot_facts *facts)
{
	int err = put_toned_line(out, TONE_HEAD, "traced memory");

	err = err ?: put_bytes(out, "current", facts->current_bytes);
	if (facts->has_peak)
		err = err ?: put_bytes(out, "peak", facts->peak_bytes);
	err = err ?: put_line(out, "  %-*s %" PRIu64, NAME_WIDTH, "blocks", facts->blocks);
	err = err ?: put_estimated_from(out, snapshot, facts);
	err = err ?: put_python_view(out, snapshot);
	err = err ?: put_size_filter(out, snapshot);
	err = err ?: put_sampler(out, snapshot);
	err = err ?: put_sampler_intervals(out, snapshot);
	err = err ?: put_injection(out, snapshot);
	err = err ?: put_older_python(out, snapshot);
	err = err ?: render_traced(out, snapshot, "  ");
	return err ?: render_rss(out, snapshot, "  ");
}

static int put_traceback_share(FILE *out, const char *name, uint64_t part, uint64_t blocks)
{
	if (!part)
		return 0;
	return put_line(out, "  %-*s %" PRIu64 " (%.1f %%)", NAME_WIDTH, name, part,
			100.0 * part / blocks);
}

static int put_stopped(FILE *out, enum snap_traceback_end end, uint64_t part, uint64_t blocks)
{
	static const char *const stopped[] = {
#define X(NAME, name, meaning) "stopped: " #name,
		SNAP_TRACEBACK_ENDS(X)
#undef X
	};

	return put_traceback_share(out, stopped[end], part, blocks);
}

static int put_shares(FILE *out, const struct snapshot_facts *facts)
{
	const struct traceback_shares *shares = &facts->shares;
	int err = put_toned_line(out, TONE_HEAD, "tracebacks, in %sblocks", facts->is_estimated ? "sampled " : "");

	err = err ?: put_traceback_share(out, "complete", shares->end[SNAP_END_ROOT], facts->samples);
	err = err ?: put_traceback_share(out, "no further frame found", shares->ended, facts->samples);
	err = err ?: put_traceback_share(out, "only the direct caller", shares->caller_only, facts->samples);
	err = err ?: put_traceback_share(out, "cut at the traceback limit", shares->limited, facts->samples);
	for (int end = SNAP_END_ROOT + 1; end < SNAP_END_NR && !err; end++)
		err = put_stopped(out, end, shares->end[end], facts->samples);
	err = err ?: put_traceback_share(out, "broken", shares->broken, facts->samples);
	return err ?: put_traceback_share(out, "none", shares->none, facts->samples);
}

static int put_counter(FILE *out, const struct snapshot *snapshot,
		       const struct snap_counter *counter)
{
	const char *name = snapshot__string(snapshot, counter->name);
	const char *meaning = counter_meaning(name);

	return put_line(out, "  %-*s %-12" PRIu64 " %s", NAME_WIDTH, name, counter->value,
			meaning ?: "(not known to this version)");
}

static int put_counters(FILE *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint32_t counted = 0;
	int err = put_toned_line(out, TONE_HEAD, "counters");

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++) {
		if (tables->counter[i].kind != SNAP_COUNTED)
			continue;
		counted++;
		err = put_counter(out, snapshot, &tables->counter[i]);
	}
	if (!err && !counted)
		err = put_line(out, "  not recorded");
	return err;
}

static int put_loss_table(FILE *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint32_t watched = 0, lost = 0;
	int err = put_toned_line(out, TONE_HEAD, "losses");

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++) {
		if (tables->counter[i].kind != SNAP_LOST)
			continue;
		watched++;
		if (!tables->counter[i].value)
			continue;
		lost++;
		err = put_counter(out, snapshot, &tables->counter[i]);
	}
	if (err || lost)
		return err;
	if (!watched)
		return put_line(out, "  not recorded");
	return put_line(out, "  none, of %" PRIu32 " kinds that were counted", watched);
}

/* "malloc+3 (/usr/lib/libc.so.6+0x98103): je 0x9810a, domain 0 (malloc)" */
static int put_recorded_probe(FILE *out, const struct snapshot *snapshot, uint32_t at)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_probe *probe = &tables->probe[at];
	uint32_t path = tables->object[probe->object].path;
	char placement[16] = "", domain[DOMAIN_TEXT_MAX] = "";

	if (probe->placement)
		snprintf(placement, sizeof(placement), "+%" PRIu32, probe->placement);
	if (tables->probe_domain)
		domain_text(domain, snapshot, tables->probe_domain[at]);
	return put_line(out, "  %s%s (%s+0x%" PRIx64 ")%s%s%s%s",
			snapshot__string(snapshot, probe->function), placement,
			snapshot__string(snapshot, path), probe->offset + probe->placement,
			probe->instruction ? ": " : "",
			snapshot__string(snapshot, probe->instruction), *domain ? ", domain " : "",
			domain);
}

/* Single-stepping is ten times slower in a virtual machine; doctor says why. */
static int put_stepped(FILE *out, const struct snapshot *snapshot)
{
	uint64_t nr = snapshot__metadata_u64(snapshot, "probes_stepped", 0);

	return !nr ? 0 : put_line(out, "  %" PRIu64 " on instructions that the kernel single-steps, which is slower", nr);
}

static int put_recorded_probes(FILE *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t stepped = snapshot__metadata_u64(snapshot, "probes_stepped", UINT64_MAX);
	int err;

	if (stepped == UINT64_MAX)
		err = put_toned_line(out, TONE_HEAD, "probes");
	else
		err = put_line(out, "probes, %" PRIu64 " on instructions that the kernel single-steps",
			       stepped);
	for (uint32_t i = 0; i < tables->probe_nr && !err; i++)
		err = put_recorded_probe(out, snapshot, i);
	if (!err && !tables->probe_nr)
		err = put_line(out, "  not recorded");
	return err ?: put_stepped(out, snapshot);
}

int text_put_snapshot(FILE *out, const struct snapshot *snapshot)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	int err = put_metadata(out, snapshot);

	err = err ?: put_memory(out, snapshot, &facts);
	err = err ?: text_put_gaps(out, snapshot);
	err = err ?: text_put_cost(out, snapshot);
	err = err ?: put_shares(out, &facts);
	err = err ?: put_counters(out, snapshot);
	err = err ?: put_loss_table(out, snapshot);
	err = err ?: text_put_dropped(out, snapshot);
	return err ?: put_recorded_probes(out, snapshot);
}
