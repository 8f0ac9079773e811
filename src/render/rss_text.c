// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/rss_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "render.h"
#include "render/clean.h"
#include "render/emitter.h"
#include "render/facts.h"
#include "snapshot.h"

/* Ordered as in the sentence. */
static const struct {
	const char *name, *key, *text;
} parts[RSS_PART_NR] = {
	[RSS_PART_HEAP] = { "heap", "rss_heap_bytes", "" },
	[RSS_PART_FILES] = { "files", "rss_files_bytes", "of files" },
	[RSS_PART_SHARED] = { "shared", "rss_shared_bytes", "shared" },
	[RSS_PART_STACKS] = { "stacks", "rss_stacks_bytes", "stacks" },
	[RSS_PART_OTHER] = { "other", "rss_other_bytes", "other mappings" },
};

#define DOMAIN_MMAP 1
#define DOMAIN_CUSTOM 16 /* the first of users' own domains */

const char *rss_part_name(enum rss_part part)
{
	return parts[part].name;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static bool is_heap_domain(const struct snapshot *snapshot, uint32_t domain)
{
	char key[32];
	const char *layer;

	if (domain < DOMAIN_CUSTOM)
		return domain != DOMAIN_MMAP;
	snprintf(key, sizeof(key), "layer.%" PRIu32, domain);
	layer = snapshot__metadata(snapshot, key);
	return layer && !strcmp(layer, "heap");
}

/* Only recordings have probes: in imported data a domain's number means something else. */
bool domains_overlap(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	bool has_heap = false, has_other = false;

	if (!tables->probe_domain || !tables->trace_domain)
		return false;
	for (uint64_t i = 0; i < tables->trace_nr && !(has_heap && has_other); i++) {
		uint32_t domain = tables->trace_domain[i];

		if (i && domain == tables->trace_domain[i - 1])
			continue;
		if (is_heap_domain(snapshot, domain))
			has_heap = true;
		else
			has_other = true;
	}
	return has_heap && has_other;
}

static uint64_t heap_blocks_bytes(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	uint32_t latest = DOMAIN_MMAP;
	bool counts = false;
	uint64_t bytes = 0;
	double beyond = 0;

	for (uint64_t i = 0; i < tables->trace_nr; i++) {
		uint32_t domain = tables->trace_domain ? tables->trace_domain[i] : 0;

		if (domain != latest)
			counts = is_heap_domain(snapshot, domain);
		latest = domain;
		if (!counts)
			continue;
		bytes = add_capped(bytes, tables->trace_size[i]);
		beyond += trace_bytes_beyond(tables, i);
	}
	return add_bytes_beyond(bytes, beyond);
}

/* A filtered snapshot has part of the blocks, which says nothing about the rest. */
static bool is_reconcilable(const struct snapshot *snapshot)
{
	return snapshot__metadata(snapshot, "rss_files_bytes") && !snapshot__metadata(snapshot, "filters");
}

struct rss_facts rss_facts(const struct snapshot *snapshot)
{
	struct rss_facts facts = { .is_known = is_reconcilable(snapshot) };
	uint64_t at = snapshot__metadata_u64(snapshot, "rss_monotonic_ns", 0);
	uint64_t now = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	if (!facts.is_known)
		return facts;
	facts.is_close = snapshot__metadata(snapshot, "rss_heap_bytes");
	for (int i = 0; i < RSS_PART_NR; i++)
		facts.part[i] = snapshot__metadata_u64(snapshot, parts[i].key, 0);
	if (!facts.is_close)
		facts.part[RSS_PART_HEAP] = snapshot__metadata_u64(snapshot, "rss_anonymous_bytes", 0);
	for (int i = 0; i < RSS_PART_NR; i++)
		facts.total = add_capped(facts.total, facts.part[i]);
	facts.traced = heap_blocks_bytes(snapshot);
	facts.traced_resident = facts.traced < facts.part[RSS_PART_HEAP] ? facts.traced :
									  facts.part[RSS_PART_HEAP];
	facts.untraced = facts.part[RSS_PART_HEAP] - facts.traced_resident;
	facts.not_resident = facts.traced - facts.traced_resident;
	facts.huge = snapshot__metadata_u64(snapshot, "rss_huge_bytes", 0);
	facts.swap = snapshot__metadata_u64(snapshot, "rss_swap_bytes", 0);
	facts.age_ns = at && now > at ? now - at : 0;
	return facts;
}

/* ---- as text ---- */

static void put_sum(struct emitter *out, const struct rss_facts *facts, const char *margin)
{
	const char *untraced = facts->is_close ? "of heaps not traced" : "of anonymous memory not traced";
	char text[512], size[UNIT_TEXT_MAX];
	size_t len = 0;

	*text = '\0';
	for (int i = RSS_PART_HEAP; i < RSS_PART_NR; i++) {
		uint64_t bytes = i == RSS_PART_HEAP ? facts->untraced : facts->part[i];

		if (bytes)
			len += snprintf(text + len, sizeof(text) - len, " + %s %s", format_size(size, bytes, false),
					i == RSS_PART_HEAP ? untraced : parts[i].text);
	}
	emit_line(out, "%sRSS %s = %s traced%s", margin, format_size((char[UNIT_TEXT_MAX]){}, facts->total, false),
		  format_size(size, facts->traced_resident, false), text);
}

/* Returns a list of what the recording itself left out. */
static const char *left_out(const struct snapshot *snapshot)
{
	bool has_gaps = snapshot__tables(snapshot)->gap_nr;
	bool is_by_size = snapshot__metadata(snapshot, "min_size") || snapshot__metadata(snapshot, "max_size");

	if (has_gaps)
		return is_by_size ? ", what was allocated in gaps, blocks of other sizes" :
				    ", what was allocated in gaps";
	return is_by_size ? ", blocks of other sizes" : "";
}

static void put_untraced(struct emitter *out, const struct snapshot *snapshot, const struct rss_facts *facts,
			 const char *margin)
{
	uint64_t older = snapshot__metadata_u64(snapshot, "rss_at_start_bytes", 0);
	const char *unrecorded = snapshot__metadata(snapshot, "unrecorded");
	char text[UNIT_TEXT_MAX];

	if (!facts->untraced)
		return;
	emit_line(out, "%snot traced: older than the recording (RSS was %s then), the allocator's slack%s%s", margin,
		  format_size(text, older, false), left_out(snapshot),
		  facts->is_close ? ", heaps of other runtimes, what of the traced was not touched; these are not told "
				    "apart" :
				    ", stacks, heaps of other runtimes, what of the traced was not touched; too large "
				    "to be told apart cheaply");
	if (unrecorded)
		emit_line(out, "%snot recorded: %s", margin, unrecorded);
}

static void put_beside(struct emitter *out, const struct rss_facts *facts, const char *margin)
{
	char text[UNIT_TEXT_MAX];

	if (facts->not_resident)
		emit_line(out, "%straced, but not in RSS: %s or more, which was not touched yet or is swapped out",
			  margin, format_size(text, facts->not_resident, false));
	if (facts->swap)
		emit_line(out, "%sswapped out, beside RSS: %s", margin, format_size(text, facts->swap, false));
	if (facts->huge)
		emit_line(out, "%sin huge pages: %s of RSS", margin, format_size(text, facts->huge, false));
	if (facts->age_ns >= 1000000000)
		emit_line(out, "%sRSS was read %.1f s before: the process had ended", margin, facts->age_ns / 1e9);
}

int render_rss(FILE *file, const struct snapshot *snapshot, const char *margin)
{
	struct emitter out = emit_to(file, false);
	struct rss_facts facts = rss_facts(snapshot);

	if (!facts.is_known)
		return 0;
	put_sum(&out, &facts, margin);
	put_untraced(&out, snapshot, &facts, margin);
	put_beside(&out, &facts, margin);
	return emit_finish(&out);
}

/* The memory in use when the recording began, part of which may still be in use; 0: not known. */
static uint64_t older_bytes(const struct snapshot *snapshot)
{
	uint64_t rss = snapshot__metadata_u64(snapshot, "rss_bytes", UINT64_MAX);
	uint64_t at_start = snapshot__metadata_u64(snapshot, "rss_at_start_bytes", 0);

	return at_start < rss ? at_start : rss;
}

int render_traced(FILE *out, const struct snapshot *snapshot, const char *margin)
{
	struct snapshot_facts facts = snapshot_facts(snapshot);
	uint64_t rss = snapshot__metadata_u64(snapshot, "rss_bytes", 0);
	uint64_t older = older_bytes(snapshot);
	char traced_text[UNIT_TEXT_MAX], rss_text[UNIT_TEXT_MAX], older_text[UNIT_TEXT_MAX];

	format_size(traced_text, facts.current_bytes, false);
	format_size(rss_text, rss, false);
	format_size(older_text, older, false);
	return put_line(out, "%straced %s%s in %" PRIu64 " block%s%s%s%s%s%s%s",
			margin, facts.is_estimated ? "about " : "", traced_text,
			facts.blocks, facts.blocks == 1 ? "" : "s",
			snapshot__metadata(snapshot, "filters") ? " (filtered)" : "",
			rss ? ", of RSS " : "", rss ? rss_text : "",
			older ? "; up to " : "", older ? older_text : "",
			older ? " older than the recording" : "");
}

/* ---- two snapshots ---- */

static bool has_same_value(const struct snapshot *old, const struct snapshot *new, const char *key)
{
	const char *a = snapshot__metadata(old, key), *b = snapshot__metadata(new, key);

	return a && b && !strcmp(a, b);
}

/* Whether both RSS can be compared: blocks that a filter left out are missing in what is traced. */
static bool is_rss_comparable(const struct snapshot *old, const struct snapshot *new)
{
	static const char *const key[] = { "boot_id", "pid", "start_time_ticks" };

	for (size_t i = 0; i < sizeof(key) / sizeof(*key); i++)
		if (!has_same_value(old, new, key[i]))
			return false;
	return snapshot__metadata(old, "rss_bytes") && snapshot__metadata(new, "rss_bytes") &&
	       !snapshot__metadata(old, "filters") && !snapshot__metadata(new, "filters");
}

struct rss_change rss_change_between(const struct snapshot *old, const struct snapshot *new)
{
	if (!is_rss_comparable(old, new))
		return (struct rss_change){};
	return (struct rss_change){
		.is_known = true,
		.before = snapshot__metadata_u64(old, "rss_bytes", 0),
		.after = snapshot__metadata_u64(new, "rss_bytes", 0),
		.traced = (double)heap_blocks_bytes(new) - (double)heap_blocks_bytes(old),
	};
}

int render_rss_diff(FILE *out, const struct snapshot *old, const struct snapshot *new)
{
	const struct rss_change rss = rss_change_between(old, new);
	double grown = (double)rss.after - rss.before;
	char text[4][UNIT_TEXT_MAX], share[32] = "";

	if (!rss.is_known)
		return 0;
	if (grown > 0 && rss.traced >= 0)
		snprintf(share, sizeof(share), ": %.0f %% of that", 100 * rss.traced / grown);
	return put_line(out, "RSS %s → %s (%s); traced heap blocks %s%s", format_size(text[0], rss.before, false),
			format_size(text[1], rss.after, false), format_size(text[2], grown, true),
			format_size(text[3], rss.traced, true), share);
}
