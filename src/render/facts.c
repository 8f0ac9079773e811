// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/facts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/text_stream.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "formats/import.h"
#include "render.h"
#include "render/clean.h"
#include "render/emitter.h"
#include "render/page_facts.h"
#include "shared/bpf_types.h"
#include "snapshot.h"

/* Whether the traceback has one call only; frames that were inlined into it do not count. */
static bool is_one_call(const struct snapshot_tables *tables, const struct snap_traceback *traceback)
{
	const uint32_t *frame = &tables->traceback_frame[traceback->first];
	uint32_t call_nr = 0;

	for (uint32_t i = 0; i < traceback->nframe && call_nr < 2; i++)
		call_nr += !(tables->frame[frame[i]].flags & (SNAP_FRAME_INLINE | SNAP_FRAME_SKIPPED));
	return call_nr <= 1;
}

static uint64_t *traceback_share(struct traceback_shares *shares, const struct snapshot_tables *tables,
				 const struct snap_traceback *traceback)
{
	if (!traceback->nframe)
		return &shares->none;
	if (traceback->flags & SNAP_TRACEBACK_BROKEN)
		return &shares->broken;
	if (traceback->flags & SNAP_TRACEBACK_LIMITED || traceback->total_nframe > traceback->nframe)
		return &shares->limited;
	if (traceback->flags & SNAP_TRACEBACK_END)
		return &shares->end[SNAP_TRACEBACK_END_OF(traceback->flags)];
	return is_one_call(tables, traceback) ? &shares->caller_only : &shares->ended;
}

bool snapshot_has_counter(const struct snapshot *snapshot, const char *name)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 0; i < tables->counter_nr; i++)
		if (!strcmp(snapshot__string(snapshot, tables->counter[i].name), name))
			return true;
	return false;
}

/* A sum above 2^64 - 1, which no process reaches, becomes 2^64 - 1. */
static void add_size(uint64_t *sum, uint64_t size)
{
	if (__builtin_add_overflow(*sum, size, sum))
		*sum = UINT64_MAX;
}

/* Returns the bytes that trace number `at` stands for in addition to its own. */
static double trace_bytes_beyond(const struct snapshot_tables *tables, uint64_t at)
{
	return tables->trace_weight ? tables->trace_size[at] * (tables->trace_weight[at] - 1) : 0;
}

/* Returns the samples' bytes plus those that they stand for in addition; at most UINT64_MAX. */
static uint64_t add_bytes_beyond(uint64_t samples, double beyond)
{
	uint64_t sum = samples;

	if (!(beyond < 0x1p64) || __builtin_add_overflow(sum, (uint64_t)(beyond + 0.5), &sum))
		return UINT64_MAX;
	return sum;
}

/* Each kind with how it reads in a sentence. A file may have any text there. */
static const struct sampler_kind {
	const char *name, *words;
} sampler_kinds[] = {
	{ "own", "by the process's own sampler" },
	{ "preloaded", "by a preloaded sampler" },
	{ "injected", "by an injected sampler" },
	{ "pools", "by pools of CPython" },
	{ "go", "by Go's own heap profile" },
	{ "java", "by an agent in the Java virtual machine" },
};

static const struct sampler_kind *find_sampler_kind(const struct snapshot *snapshot)
{
	const char *name = snapshot__metadata(snapshot, "sampler_kind");

	for (size_t i = 0; i < ARRAY_SIZE(sampler_kinds) && name; i++)
		if (!strcmp(sampler_kinds[i].name, name))
			return &sampler_kinds[i];
	return NULL;
}

const char *snapshot_sampler_kind(const struct snapshot *snapshot)
{
	const struct sampler_kind *kind = find_sampler_kind(snapshot);

	return kind ? kind->name : NULL;
}

const char *rate_text(char text[RATE_TEXT_MAX], const struct snapshot *snapshot)
{
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	const struct sampler_kind *kind = find_sampler_kind(snapshot);
	char rate[UNIT_TEXT_MAX];
	int len = 0;

	*text = '\0';
	if (bytes)
		len = snprintf(text, RATE_TEXT_MAX, "one in %s", format_size(rate, bytes, false));
	if (kind)
		snprintf(text + len, RATE_TEXT_MAX - len, "%s%s", len ? " " : "", kind->words);
	return text;
}

uint64_t snapshot_recorded_ns(const struct snapshot *snapshot)
{
	uint64_t start_ns = snapshot__metadata_u64(snapshot, "recording_start_monotonic_ns", UINT64_MAX);
	uint64_t now_ns = snapshot__metadata_u64(snapshot, "monotonic_ns", 0);

	return start_ns < now_ns ? now_ns - start_ns : 0;
}

struct snapshot_facts snapshot_facts(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct snapshot_facts facts = {
		.samples = tables->trace_nr, .is_estimated = tables->trace_weight,
	};
	double bytes = 0, blocks = 0;

	for (uint64_t i = 0; i < tables->trace_nr; i++) {
		add_size(&facts.current_bytes, tables->trace_size[i]);
		bytes += trace_bytes_beyond(tables, i);
		blocks += tables->trace_weight ? tables->trace_weight[i] - 1 : 0;
		++*traceback_share(&facts.shares, tables,
				   &tables->traceback[tables->trace_traceback[i]]);
	}
	facts.current_bytes = add_bytes_beyond(facts.current_bytes, bytes);
	facts.blocks = add_bytes_beyond(tables->trace_nr, blocks);
	facts.has_peak = snapshot_has_counter(snapshot, "peak_bytes") && !snapshot__metadata(snapshot, "books_bytes") &&
			 !snapshot_has_pages(snapshot) && !snapshot__metadata(snapshot, "java_version");
	facts.peak_bytes = snapshot__counter(snapshot, "peak_bytes");
	if (facts.peak_bytes < facts.current_bytes)
		facts.peak_bytes = facts.current_bytes;
	return facts;
}

const char *counter_meaning(const char *name)
{
	static const struct {
		const char *name;
		const char *meaning;
	} list[] = {
#define X(name, meaning) { #name, meaning },
		ALLOCSNAP_COUNTERS(X)
		ALLOCSNAP_LOSSES(X)
		IMPORT_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < ARRAY_SIZE(list); i++)
		if (!strcmp(list[i].name, name))
			return list[i].meaning;
	return NULL;
}

/* ---- losses ---- */

int snapshot_losses(const struct snapshot *snapshot, struct report_loss **ret, size_t *ret_nr)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	struct report_loss *loss = calloc(tables->counter_nr + 1ull, sizeof(*loss));

	*ret_nr = 0;
	*ret = loss;
	for (uint32_t i = 0; loss && i < tables->counter_nr; i++)
		if (tables->counter[i].kind == SNAP_LOST)
			loss[(*ret_nr)++] = (struct report_loss){ snapshot__string(snapshot, tables->counter[i].name),
								  tables->counter[i].value };
	return loss ? 0 : -ENOMEM;
}

/* "losses: NAME VALUE, …"; a loss of 0 is left out. `show` says what they mean. */
char *loss_list_line(const struct report_loss *loss, size_t nr)
{
	char *text = NULL, *line = NULL;
	const char *before = "losses: ";
	bool is_none = false;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	for (size_t i = 0; out && i < nr; i++) {
		if (!loss[i].value)
			continue;
		fprintf(out, "%s%s %" PRIu64, before, loss[i].name, loss[i].value);
		before = ", ";
	}
	if (out && !text_stream_close(out, &text)) {
		line = len ? clean_copy(text) : NULL;
		is_none = !len;
	}
	free(text);
	errno = is_none ? 0 : ENOMEM;
	return line;
}

char *losses_line(const struct snapshot *snapshot)
{
	struct report_loss *loss;
	size_t nr;
	char *line = snapshot_losses(snapshot, &loss, &nr) ? NULL : loss_list_line(loss, nr);

	free(loss);
	return line;
}

void log_losses_line(const struct snapshot *snapshot, const char *name)
{
	char *line = losses_line(snapshot);

	if (line)
		log_cut("%s: %s", name, line);
	else if (errno)
		log_cut("%s: losses: %s", name, strerror(errno));
	free(line);
}

/* ---- RSS ------------------------------------------------------------------------------------ */

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

	if (domain < DOMAIN_USER)
		return domain != DOMAIN_MAPPING && domain != DOMAIN_PAGES;
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

/* The bytes of the heap's blocks, or of pages, which no heap's blocks are beside. */
static uint64_t heap_blocks_bytes(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	bool counts = false, has_pages = snapshot_has_pages(snapshot);
	uint32_t latest = DOMAIN_MAPPING;
	uint64_t bytes = 0;
	double beyond = 0;

	for (uint64_t i = 0; i < tables->trace_nr; i++) {
		uint32_t domain = tables->trace_domain ? tables->trace_domain[i] : 0;

		if (domain != latest)
			counts = has_pages ? domain == DOMAIN_PAGES : is_heap_domain(snapshot, domain);
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
	return snapshot__metadata(snapshot, "rss_files_bytes") && !snapshot__metadata(snapshot, "filters") &&
	       !snapshot_has_pages(snapshot);
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

bool snapshot_has_names(const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 1; i < tables->frame_nr; i++)
		if (tables->frame[i].function || tables->frame[i].lineno)
			return true;
	return false;
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
	emit_line(out, snapshot_is_of_go(snapshot) ? "%snot traced: memory that is not Go's and older than the recording (RSS was %s then), "
						     "what Go has free%s%s" :
						     "%snot traced: older than the recording (RSS was %s then), the allocator's slack%s%s", margin,
		  format_size(text, older, false), left_out(snapshot),
		  facts->is_close ? ", heaps of other runtimes, what of the traced was not touched; these are not "
				    "told apart" :
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

	if (snapshot_has_pages(snapshot) && !snapshot__metadata(snapshot, "filters"))
		return render_pages(file, snapshot, margin);
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
	return put_line(out, "RSS %s → %s (%s); %s %s%s", format_size(text[0], rss.before, false),
			format_size(text[1], rss.after, false), format_size(text[2], grown, true),
			snapshot_has_pages(new) ? "pages by code" : "traced heap blocks",
			format_size(text[3], rss.traced, true), share);
}
