// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* `show`: the facts of a snapshot, or of one live block. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "engine/leak_runtime.h"
#include "render.h"
#include "render/caveats.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/page_facts.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"
#include "snapshot.h"

#define SHOW_NAME "  %-30s " /* the first column of text */

/* ---- metadata --------------------------------------------------------------------------------- */

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

#define VALUE_SHOWN 500

/* Text cuts a long value: a process's arguments, for example, may be megabytes. */
static void emit_metadata_value(struct emitter *out, const char *key, const char *value)
{
	size_t len = strlen(value), shown = VALUE_SHOWN;
	uint64_t number;

	if (is_number_key(key) && !parse_count(value, 0, INT64_MAX, &number))
		emit_uint(out, key, number);
	else
		emit_text(out, key, value);
	if (len <= VALUE_SHOWN) {
		emit_line(out, SHOW_NAME "%s", key, value);
		return;
	}
	for (int i = 0; i < 3 && (value[shown] & 0xc0) == 0x80; i++)
		shown--; /* do not cut inside a character */
	emit_line(out, SHOW_NAME "%.*s… (%zu bytes)", key, (int)shown, value, len);
}

static void emit_metadata(struct emitter *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	emit_section(out, "metadata", "metadata");
	for (uint32_t i = 0; i < tables->metadata_nr; i++)
		emit_metadata_value(out, snapshot__string(snapshot, tables->metadata[i].key),
				    snapshot__string(snapshot, tables->metadata[i].value));
	if (!tables->metadata_nr)
		emit_line(out, "  not recorded");
	emit_end(out);
}

/* ---- traced memory ---------------------------------------------------------------------------- */

static void emit_bytes(struct emitter *out, const char *name, uint64_t bytes)
{
	char text[UNIT_TEXT_MAX];

	emit_uint(out, name, bytes);
	emit_line(out, SHOW_NAME "%" PRIu64 " (%s)", name, bytes, format_size(text, bytes, false));
}

static void put_estimated_from(struct emitter *out, const struct snapshot *snapshot,
			      const struct snapshot_facts *facts)
{
	char rate[RATE_TEXT_MAX];

	if (!facts->is_estimated)
		return;
	rate_text(rate, snapshot);
	emit_line(out, "  estimated from %" PRIu64 " sampled block%s%s%s%s", facts->samples,
		  facts->samples == 1 ? "" : "s", *rate ? ", " : "", rate,
		  snapshot_samples_pools(snapshot) ? ": a pool counts for the line that took it" : "");
}

/* Which sizes of blocks were recorded, if not all were. */
static void emit_size_filter(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t min = snapshot__metadata_u64(snapshot, "min_size", 0);
	uint64_t max = snapshot__metadata_u64(snapshot, "max_size", 0);
	char least[UNIT_TEXT_MAX], most[UNIT_TEXT_MAX];

	if (!min && !max)
		return;
	emit_object(out, "size_filter");
	if (min)
		emit_uint(out, "min", min);
	if (max)
		emit_uint(out, "max", max);
	emit_end(out);
	format_size(least, min, false);
	format_size(most, max, false);
	emit_line(out, "  only blocks of %s%s%s%s were recorded", min ? least : "",
		  min ? max ? " to " : " or more" : "", max ? most : "", min ? "" : " or less");
}

/* Samples that the process took itself do not include everything. Files of before "sampler_kind" name the rest only. */
static void put_sampler(struct emitter *out, const struct snapshot *snapshot)
{
	const char *path = snapshot__metadata(snapshot, "sampler");
	const char *unseen = snapshot__metadata(snapshot, "sampler_unseen");
	const char *left_out = snapshot__metadata(snapshot, "heap_not_recorded");
	bool names_all = unseen && snapshot__metadata(snapshot, "sampler_kind");

	if (left_out)
		emit_line(out, "  blocks of the heap are not recorded: %s", left_out);
	else if (path)
		emit_line(out, "  samples taken in the process by %s; not sampled: %s%s%s", path,
			  names_all ? "" : "blocks of 0 bytes, blocks from before", unseen && !names_all ? ", " : "",
			  unseen ?: "");
}

/* The recorder keeps their number to what it may be, by a larger interval. */
static void put_sampler_intervals(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t chosen = snapshot__metadata_u64(snapshot, "sampler_chosen_bytes", 0);
	uint64_t most = snapshot__metadata_u64(snapshot, "sample_bytes_most", 0);
	char now_text[UNIT_TEXT_MAX], chosen_text[UNIT_TEXT_MAX], most_text[UNIT_TEXT_MAX];

	if (!chosen || most <= chosen)
		return;
	emit_line(out, "  chosen: one sample in %s; to limit their cost, one in %s for a time, one in %s now",
		  format_size(chosen_text, chosen, false), format_size(most_text, most, false),
		  format_size(now_text, snapshot__metadata_u64(snapshot, "sample_bytes", 0), false));
}

static void put_injection(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t stopped_ns = snapshot__metadata_u64(snapshot, "sampler_stopped_ns", 0);

	if (stopped_ns)
		emit_line(out, "  to inject the sampler, the threads were stopped for %.1f ms", stopped_ns / 1e6);
}

/* Go's samples are older than the recording, too. Their rate is known, or the one that Go begins with. */
static void put_go(struct emitter *out, const struct snapshot *snapshot)
{
	const char *rate = snapshot__metadata(snapshot, "go_rate"), *why_not = snapshot__metadata(snapshot, "go_not_recorded");
	const char *version = snapshot__metadata(snapshot, "go_version") ?: "Go";
	const char *switched = snapshot__metadata(snapshot, "go_profile");

	if (rate)
		emit_line(out, "  Go's heap as its own profile has it (%s%s): samples since %s, garbage included that no "
			  "collection has freed yet; a block is at most as old as it says", version,
			  !strcmp(rate, "assumed") ? ", rate assumed" : !strcmp(rate, "off") ? ", which takes no samples any more" : "",
			  !switched ? "the program's start" : strcmp(switched, "switched on by the recording") ? "it was switched on" :
			  "the recording has switched it on");
	if (why_not)
		emit_line(out, "  Go's heap is not recorded: %s", why_not);
}

/* Which of two views of a Python it is, and how to have the other one. Files of before "domains" do not say which. */
static void put_python_view(struct emitter *out, const struct snapshot *snapshot)
{
	const char *domains = snapshot__metadata(snapshot, "domains");
	const char *why_not = snapshot__metadata(snapshot, "python_not_recorded");
	const char *exe = snapshot__metadata(snapshot, "exe") ?: "", *slash = strrchr(exe, '/');
	const char *machine = snapshot__metadata(snapshot, "machine") ?: "x86_64"; /* others do not record Python's objects */

	if (snapshot_has_pages(snapshot))
		return;
	if (has_heap_beside(snapshot))
		emit_line(out, "  the heap of the process, and pools of Python's small objects, at Python's lines; for "
			  "each object: 'leaks PID', or --domain python");
	else if (domains && !strncmp(domains, "python", strlen("python")))
		emit_line(out, "  Python's objects, at Python's lines%s; for the heap of the process: --domain malloc",
			  has_kept_lines(snapshot) ? " (in memory of free lists, at the first object's line)" : "");
	else if (why_not && !domains)
		emit_line(out, "  nothing is recorded: %s; for the heap of the process: --domain malloc", why_not);
	else if (why_not)
		emit_line(out, "  the heap of the process, not Python's objects: %s", why_not);
	else if (domains && !strcmp(machine, "x86_64") && !strncmp(slash ? slash + 1 : exe, "python", strlen("python")))
		emit_line(out, "  the heap of the process; for Python's objects, at Python's lines: --domain python");
}

/* Python's small objects that have no traceback: they were there before. */
static void put_older_python(struct emitter *out, const struct snapshot *snapshot)
{
	const char *count = snapshot__metadata(snapshot, "python_older_count");
	const char *bytes = snapshot__metadata(snapshot, "python_older_bytes");

	if (count && bytes)
		emit_line(out, "  older than the recording: %s %s of Python, %s bytes", count,
			  snapshot_samples_pools(snapshot) ? "pools" : "objects", bytes);
}

static void put_unseen_start(struct emitter *out, const struct snapshot *snapshot)
{
	struct reason line;

	if (unjudged_java_warning(snapshot, &line))
		emit_line(out, "  %s", line.text);
	if (unseen_start_warning(snapshot, &line))
		emit_line(out, "  %s", line.text);
}

void emit_rss(struct emitter *out, const struct snapshot *snapshot)
{
	struct rss_facts facts = rss_facts(snapshot);

	if (!facts.is_known)
		return;
	emit_object(out, "rss");
	emit_uint(out, "total", facts.total);
	emit_uint(out, "traced", facts.traced_resident);
	emit_uint(out, facts.is_close ? "heap_not_traced" : "anonymous_not_traced", facts.untraced);
	for (int i = RSS_PART_HEAP + 1; i < RSS_PART_NR; i++)
		if (facts.is_close || i == RSS_PART_FILES || i == RSS_PART_SHARED)
			emit_uint(out, rss_part_name(i), facts.part[i]);
	emit_uint(out, "traced_not_resident", facts.not_resident);
	emit_uint(out, "swap", facts.swap);
	if (facts.is_close)
		emit_uint(out, "huge", facts.huge);
	emit_uint(out, "age_ns", facts.age_ns);
	emit_end(out);
}

/* The parts of RSS, of which traced memory is one; if these are not known, RSS beside traced memory. */
static void put_rss(struct emitter *out, const struct snapshot *snapshot)
{
	if (!emits_text(out))
		return;
	if (rss_facts(snapshot).is_known || snapshot_has_pages(snapshot))
		emit_err(out, render_rss(out->file, snapshot, "  "));
	else if (snapshot__metadata(snapshot, "rss_bytes"))
		emit_err(out, render_traced(out->file, snapshot, "  "));
}

static void put_memory_notes(struct emitter *out, const struct snapshot *snapshot)
{
	put_rss(out, snapshot);
	put_sampler(out, snapshot);
	put_sampler_intervals(out, snapshot);
	put_injection(out, snapshot);
	put_older_python(out, snapshot);
	put_unseen_start(out, snapshot);
}

static void emit_memory(struct emitter *out, const struct snapshot *snapshot, const struct snapshot_facts *facts)
{
	emit_section(out, "traced_memory", "traced memory");
	emit_bytes(out, "current", facts->current_bytes);
	if (facts->has_peak)
		emit_bytes(out, "peak", facts->peak_bytes);
	emit_end(out);
	if (out->is_json) {
		emit_rss(out, snapshot);
		emit_pages(out, snapshot);
	}
	emit_uint(out, "blocks", facts->blocks);
	emit_line(out, SHOW_NAME "%" PRIu64, "blocks", facts->blocks);
	put_estimated_from(out, snapshot, facts);
	put_python_view(out, snapshot);
	put_go(out, snapshot);
	emit_size_filter(out, snapshot);
	if (facts->is_estimated) {
		emit_uint(out, "samples", facts->samples);
		emit_sampling(out, "sampling", snapshot);
	}
	put_memory_notes(out, snapshot);
}

/* ---- gaps ------------------------------------------------------------------------------------- */

#define LATEST_NR 5 /* shown as text */

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

static void emit_gaps(struct emitter *out, const struct snapshot *snapshot)
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

/* ---- the recording's cost ---------------------------------------------------------------------- */

struct own_cost {
	bool is_known, is_estimated;
	uint64_t cost_ns, cpu_ns; /* cost_ns is part of cpu_ns */
	uint64_t wall_ns;	  /* 0: not known */
	uint64_t core_percent;	  /* 0: no budget of one core */
	uint64_t own_percent;	  /* the same of the program's own CPU time */
	uint64_t core_ns;	  /* what counts as one core: less than a second of it with a quota */
	uint64_t thinned_ns;	  /* how long only samples were recorded to stay within the budget */
};

static struct own_cost read_own_cost(const struct snapshot *snapshot)
{
	const char *is_estimated = snapshot__metadata(snapshot, "cost_is_estimated");
	struct own_cost cost = {
		.cost_ns = snapshot__metadata_u64(snapshot, "cost_ns", UINT64_MAX),
		.cpu_ns = snapshot__metadata_u64(snapshot, "cpu_ns", UINT64_MAX),
		.wall_ns = snapshot_recorded_ns(snapshot),
		.core_percent = snapshot__metadata_u64(snapshot, "max_overhead_core_percent", 0),
		.own_percent = snapshot__metadata_u64(snapshot, "max_overhead_percent", 0),
		.core_ns = snapshot__metadata_u64(snapshot, "max_overhead_core_ns", SECOND_NS),
		.thinned_ns = snapshot__metadata_u64(snapshot, "thinned_ns", 0),
		.is_estimated = is_estimated && !strcmp(is_estimated, "1"),
	};

	cost.is_known = cost.cost_ns != UINT64_MAX && cost.cpu_ns != UINT64_MAX;
	return cost;
}

/* Returns the factor by which the recording lengthened the program's own time; 0: not known. */
static double slowdown_of(const struct own_cost *cost)
{
	if (cost->cost_ns >= cost->cpu_ns)
		return 0;
	return (double)cost->cpu_ns / (cost->cpu_ns - cost->cost_ns);
}

/* Each kind of trap: its counter, and the metadata with the time of one trap. */
static const struct {
	const char *counter, *price, *json_price;
} traps[] = {
	{ "entry_traps", "cost_entry_ns", "entry_trap_ns" },
	{ "stepped_traps", "cost_stepped_ns", "stepped_trap_ns" },
	{ "return_traps", "cost_return_ns", "return_trap_ns" },
};

/* The recording's cost as a share of one core in the time that it took; that time may be unknown. */
static void put_core_share(struct emitter *out, const struct own_cost *cost)
{
	char used[UNIT_TEXT_MAX], wall[UNIT_TEXT_MAX], own[UNIT_TEXT_MAX], share[UNIT_TEXT_MAX], times[64] = "";
	uint64_t own_ns = cost->cpu_ns > cost->cost_ns ? cost->cpu_ns - cost->cost_ns : 0;
	const char *about = cost->is_estimated ? "about " : "";

	format_seconds(used, cost->cost_ns);
	format_seconds(own, own_ns);
	if (slowdown_of(cost) > 0)
		snprintf(times, sizeof(times), " of CPU time, ×%.*f while recorded", slowdown_of(cost) < 9.95 ? 1 : 0,
			 slowdown_of(cost));
	if (!cost->cpu_ns)
		emit_line(out, "  the program has not run since");
	else if (!cost->wall_ns)
		emit_line(out, "  recording used %s%s; the program's own work: %s%s", about, used, own, times);
	else
		emit_line(out, "  recording used %s (%s%s in %s); the program's own work: %s%s",
			  format_core_share(share, cost->cost_ns, cost->wall_ns), about, used,
			  format_seconds(wall, cost->wall_ns), own, times);
}

static void emit_times(struct emitter *out, const struct own_cost *cost)
{
	emit_uint(out, "cpu_ns", cost->cpu_ns);
	emit_uint(out, "cost_ns", cost->cost_ns);
	if (cost->wall_ns) {
		emit_uint(out, "wall_ns", cost->wall_ns);
		emit_real(out, "core_share", (double)cost->cost_ns / cost->wall_ns);
	}
	if (cost->cpu_ns)
		emit_real(out, "share", (double)cost->cost_ns / cost->cpu_ns);
	if (slowdown_of(cost) > 0)
		emit_real(out, "slowdown", slowdown_of(cost));
	emit_bool(out, "is_estimated", cost->is_estimated);
	put_core_share(out, cost);
}

static void emit_traps(struct emitter *out, const struct snapshot *snapshot, size_t kind)
{
	uint64_t nr = snapshot__counter(snapshot, traps[kind].counter);
	uint64_t price_ns = snapshot__metadata_u64(snapshot, traps[kind].price, 0);
	char price[48] = "";

	if (price_ns)
		snprintf(price, sizeof(price), ", %" PRIu64 " ns each", price_ns);
	if (snapshot_has_counter(snapshot, traps[kind].counter)) {
		emit_uint(out, traps[kind].counter, nr);
		emit_line(out, SHOW_NAME "%" PRIu64 "%s", traps[kind].counter, nr, price);
	}
	if (price_ns)
		emit_uint(out, traps[kind].json_price, price_ns);
}

static const char *format_core(char text[64], const struct own_cost *cost)
{
	if (cost->core_ns >= SECOND_NS)
		return "one core";
	snprintf(text, 64, "its quota (%.2f of a core)", (double)cost->core_ns / SECOND_NS);
	return text;
}

static void emit_budget(struct emitter *out, const struct own_cost *cost)
{
	char thinned[UNIT_TEXT_MAX], core[64], own[96] = "";

	if (cost->own_percent) {
		emit_uint(out, "max_overhead_percent", cost->own_percent);
		snprintf(own, sizeof(own), ", and of the program's own CPU time, or %.4g %% of a core, if that is more",
			 (double)cost->own_percent / BUDGET_IDLE_PART * cost->core_ns / SECOND_NS);
	}
	if (cost->core_percent) {
		emit_uint(out, "max_overhead_core_percent", cost->core_percent);
		emit_line(out, SHOW_NAME "%" PRIu64 " %% of %s%s", "budget", cost->core_percent,
			  format_core(core, cost), own);
	} else if (cost->own_percent) {
		emit_line(out, SHOW_NAME "%" PRIu64 " %% of the program's own CPU time", "budget", cost->own_percent);
	}
	if (cost->core_percent && cost->own_percent)
		emit_uint(out, "max_overhead_core_ns", cost->core_ns);
	if (!cost->thinned_ns)
		return;
	emit_uint(out, "thinned_ns", cost->thinned_ns);
	emit_line(out, SHOW_NAME "%s, to stay within the budget", "only samples for",
		  format_seconds(thinned, cost->thinned_ns));
}

void emit_cost(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t stepped = snapshot__metadata_u64(snapshot, "probes_stepped", UINT64_MAX);
	uint64_t program_ns = snapshot__counter(snapshot, "program_ns");
	struct own_cost cost = read_own_cost(snapshot);

	if (!cost.is_known)
		return;
	emit_line(out, "cost");
	emit_object(out, "cost");
	emit_times(out, &cost);
	for (size_t i = 0; i < ARRAY_SIZE(traps); i++)
		emit_traps(out, snapshot, i);
	if (snapshot_has_counter(snapshot, "program_ns")) {
		emit_uint(out, "program_ns", program_ns);
		emit_line(out, SHOW_NAME "%.3f s", "program time", program_ns / 1e9);
	}
	if (stepped != UINT64_MAX)
		emit_uint(out, "probes_stepped", stepped);
	emit_budget(out, &cost);
	emit_end(out);
}

/* ---- tracebacks ------------------------------------------------------------------------------- */

static void emit_share(struct emitter *out, const char *key, const char *name, uint64_t part, uint64_t blocks)
{
	emit_uint(out, key, part);
	if (part)
		emit_line(out, SHOW_NAME "%" PRIu64 " (%.1f %%)", name, part, 100.0 * part / blocks);
}

/* Blocks by how the stack walk ended, if unwind tables show it. */
static void emit_stops(struct emitter *out, const struct traceback_shares *shares, uint64_t blocks)
{
	static const struct {
		const char *key, *text;
	} stop[] = {
#define X(NAME, name, meaning) { #name, "stopped: " #name },
		SNAP_TRACEBACK_ENDS(X)
#undef X
	};

	emit_object(out, "stopped");
	for (int end = SNAP_END_ROOT + 1; end < SNAP_END_NR; end++)
		if (shares->end[end])
			emit_share(out, stop[end].key, stop[end].text, shares->end[end], blocks);
	emit_end(out);
}

void emit_tracebacks(struct emitter *out, const struct snapshot_facts *facts)
{
	const struct traceback_shares *shares = &facts->shares;
	uint64_t blocks = facts->samples;

	emit_section(out, "tracebacks",
		     facts->is_estimated ? "tracebacks, in sampled blocks" : "tracebacks, in blocks");
	emit_share(out, "complete", "complete", shares->end[SNAP_END_ROOT], blocks);
	if (out->is_json)
		emit_stops(out, shares, blocks);
	emit_share(out, "ended", "no further frame found", shares->ended, blocks);
	emit_share(out, "caller_only", "only the direct caller", shares->caller_only, blocks);
	emit_share(out, "limited", "cut at the traceback limit", shares->limited, blocks);
	if (!out->is_json)
		emit_stops(out, shares, blocks);
	emit_share(out, "broken", "broken", shares->broken, blocks);
	emit_share(out, "none", "none", shares->none, blocks);
	emit_end(out);
}

/* ---- counters --------------------------------------------------------------------------------- */

/* Text leaves out losses of 0, and of pages what counts calls of allocators. */
static void emit_counters(struct emitter *out, const char *heading, const struct snapshot *snapshot,
			  enum snap_counter_kind kind)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	bool has_zeros = kind != SNAP_LOST && !snapshot_has_pages(snapshot);
	uint32_t nr = 0, shown = 0;

	emit_section(out, heading, heading);
	for (uint32_t i = 0; i < tables->counter_nr; i++) {
		const struct snap_counter *counter = &tables->counter[i];
		const char *name = snapshot__string(snapshot, counter->name);

		if (counter->kind != kind)
			continue;
		nr++;
		emit_uint(out, name, counter->value);
		if (!has_zeros && !counter->value)
			continue;
		shown++;
		emit_line(out, SHOW_NAME "%-12" PRIu64 " %s", name, counter->value,
			  counter_meaning(name) ?: "(not known to this version)");
	}
	emit_end(out);
	if (!nr)
		emit_line(out, "  not recorded");
	else if (!shown)
		emit_line(out, "  none, of %" PRIu32 " kinds that were counted", nr);
}

/* "4000 blocks not recorded: the block map was full (--max-blocks 1000) …; 1500 of them freed since" */
static void put_dropped(struct emitter *out, const struct snapshot *snapshot)
{
	uint64_t dropped = snapshot__counter(snapshot, "blocks_dropped");
	const char *most = snapshot__metadata(snapshot, "max_blocks");
	char text[UNIT_TEXT_MAX], since[128] = "";

	if (!dropped)
		return;
	if (snapshot_has_counter(snapshot, "dropped_frees"))
		snprintf(since, sizeof(since), "; %" PRIu64 " of them freed since, %" PRIu64 " live (%s)",
			 snapshot__counter(snapshot, "dropped_frees"), snapshot__counter(snapshot, "dropped_blocks"),
			 format_size(text, snapshot__counter(snapshot, "dropped_bytes"), false));
	emit_line(out, "  %" PRIu64 " block%s not recorded: the block map was full%s%s%s, or the kernel out of "
		  "memory%s",
		  dropped, dropped == 1 ? "" : "s", most ? " (--max-blocks " : "", most ?: "", most ? ")" : "", since);
}

/* ---- probes ----------------------------------------------------------------------------------- */

/* "malloc+3 (/usr/lib/libc.so.6+0x98103): je 0x9810a, domain 0 (malloc)" */
static void emit_probe(struct emitter *out, const struct snapshot *snapshot, uint32_t at)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	const struct snap_probe *probe = &tables->probe[at];
	uint32_t path = tables->object[probe->object].path;
	const char *function = snapshot__string(snapshot, probe->function);
	const char *instruction = probe->instruction ? snapshot__string(snapshot, probe->instruction) : NULL;
	char placement[16] = "", domain[DOMAIN_TEXT_MAX] = "";

	emit_object(out, NULL);
	emit_text(out, "object", path ? snapshot__string(snapshot, path) : NULL);
	emit_text(out, "function", function);
	emit_uint(out, "offset", probe->offset);
	emit_uint(out, "placement", probe->placement);
	emit_text(out, "instruction", instruction);
	if (tables->probe_domain)
		emit_uint(out, "domain", tables->probe_domain[at]);
	emit_end(out);
	if (probe->placement)
		snprintf(placement, sizeof(placement), "+%" PRIu32, probe->placement);
	if (tables->probe_domain)
		domain_text(domain, snapshot, tables->probe_domain[at]);
	emit_line(out, "  %s%s (%s+0x%" PRIx64 ")%s%s%s%s", function, placement, snapshot__string(snapshot, path),
		  probe->offset + probe->placement, instruction ? ": " : "", instruction ?: "",
		  *domain ? ", domain " : "", domain);
}

/* Single-stepping is ten times slower in a virtual machine; doctor says why. */
static void emit_probes(struct emitter *out, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint64_t stepped = snapshot__metadata_u64(snapshot, "probes_stepped", UINT64_MAX);

	if (stepped == UINT64_MAX)
		emit_toned_line(out, TONE_HEAD, "probes");
	else
		emit_line(out, "probes, %" PRIu64 " on instructions that the kernel single-steps", stepped);
	emit_list(out, "probes");
	for (uint32_t i = 0; i < tables->probe_nr; i++)
		emit_probe(out, snapshot, i);
	emit_end(out);
	if (!tables->probe_nr)
		emit_line(out, "  not recorded");
	if (stepped && stepped != UINT64_MAX)
		emit_line(out, "  %" PRIu64 " on instructions that the kernel single-steps, which is slower", stepped);
}

/* ---- all -------------------------------------------------------------------------------------- */

/* The facts that are asked most come first: how much of RSS is traced, what was lost, what it cost. */
int text_put_snapshot(FILE *file, const struct snapshot *snapshot)
{
	struct emitter out = emit_to(file, false);
	struct snapshot_facts facts = snapshot_facts(snapshot);

	emit_memory(&out, snapshot, &facts);
	emit_gaps(&out, snapshot);
	emit_counters(&out, "losses", snapshot, SNAP_LOST);
	put_dropped(&out, snapshot);
	emit_cost(&out, snapshot);
	emit_tracebacks(&out, &facts);
	emit_counters(&out, "counters", snapshot, SNAP_COUNTED);
	emit_probes(&out, snapshot);
	emit_metadata(&out, snapshot);
	return emit_finish(&out);
}

int json_put_snapshot(FILE *file, const struct snapshot *snapshot)
{
	struct emitter out = emit_to(file, true);
	struct snapshot_facts facts = snapshot_facts(snapshot);

	emit_text(&out, "schema", "allocsnap.snapshot/1");
	emit_metadata(&out, snapshot);
	emit_memory(&out, snapshot, &facts);
	emit_gaps(&out, snapshot);
	emit_cost(&out, snapshot);
	emit_counters(&out, "counters", snapshot, SNAP_COUNTED);
	emit_counters(&out, "losses", snapshot, SNAP_LOST);
	emit_probes(&out, snapshot);
	emit_tracebacks(&out, &facts);
	return emit_finish(&out);
}

/* ---- one live block, its traceback and its age ------------------------------------------------- */

struct block {
	struct snap_trace trace;
	struct frame_view *frame;
	uint32_t nframe, total_nframe;
	bool has_age;
	uint64_t age_ns;
};

static int block_read(const struct snapshot *snapshot, uint64_t at, struct block *ret)
{
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	*ret = (struct block){ .trace = snapshot__trace(snapshot, at) };
	ret->has_age = ret->trace.birth_ns && now_ns >= ret->trace.birth_ns;
	ret->age_ns = now_ns - ret->trace.birth_ns;
	return traceback_read(snapshot, ret->trace.traceback, &ret->frame, &ret->nframe,
			      &ret->total_nframe);
}

static void emit_block_facts(struct emitter *out, const struct snapshot *snapshot, const struct block *block)
{
	const struct snap_trace *trace = &block->trace;
	char size[UNIT_TEXT_MAX], age[32] = "", thread[32] = "", domain[DOMAIN_TEXT_MAX], weight[64] = "";

	emit_text(out, "schema", "allocsnap.block/2");
	emit_uint(out, "address", trace->address);
	emit_uint(out, "size", trace->size);
	emit_uint(out, "domain", trace->domain);
	if (trace->thread) {
		emit_uint(out, "thread", trace->thread);
		snprintf(thread, sizeof(thread), ", by thread %" PRIu32, trace->thread);
	}
	if (trace->weight > 1) {
		emit_real(out, "weight", trace->weight);
		snprintf(weight, sizeof(weight), "; a sample, which stands for %.7g blocks", trace->weight);
	}
	if (block->has_age) {
		emit_uint(out, "age_ns", block->age_ns);
		snprintf(age, sizeof(age), ", %.3f s old", block->age_ns / 1e9);
	}
	if (block->total_nframe)
		emit_uint(out, "total_nframe", block->total_nframe);
	emit_line(out, "0x%" PRIx64 ": %s in domain %s%s%s%s", trace->address, format_size(size, trace->size, false),
		  domain_text(domain, snapshot, trace->domain), thread, age, weight);
}

static void put_block_frames(struct emitter *out, const struct block *block, const struct readable_names *names)
{
	for (uint32_t i = block->nframe; i-- && emits_text(out);) {
		size_t tail_at;
		char *text = frame_text(names, &block->frame[i], &tail_at);

		if (text)
			emit_line(out, "    %s", text);
		else
			emit_err(out, -ENOMEM);
		free(text);
	}
}

/* Names in JSON are always in full. */
static int put_block(FILE *file, const struct snapshot *snapshot, uint64_t at, bool full_names, bool is_json)
{
	struct emitter out = emit_to(file, is_json);
	struct readable_names names = {};
	struct block block;

	emit_err(&out, block_read(snapshot, at, &block));
	if (emits_text(&out) && !full_names) {
		const struct statistic of_block = { .frame = block.frame, .nframe = block.nframe };

		emit_err(&out, readable_names_add(&names, &of_block, 1, KEY_TRACEBACK));
	}
	emit_block_facts(&out, snapshot, &block);
	emit_frames(&out, block.frame, block.nframe);
	put_block_frames(&out, &block, full_names ? NULL : &names);
	readable_names_release(&names);
	free(block.frame);
	return emit_finish(&out);
}

int text_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	return put_block(out, snapshot, at, full_names, false);
}

int json_put_block(FILE *out, const struct snapshot *snapshot, uint64_t at, bool full_names)
{
	return put_block(out, snapshot, at, full_names, true);
}
