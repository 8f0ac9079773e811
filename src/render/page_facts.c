// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/page_facts.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "render/emitter.h"
#include "snapshot.h"
#include "snapshot/pages_by.h"

/* Ordered as in the sentence; they add up to RSS. */
static const struct {
	const char *name, *key, *text;
} parts[] = {
	{ "traced", "pages_traced_bytes", "by code" },
	{ "older", "pages_older_bytes", "older than the recording" },
	{ "inherited", "pages_inherited_bytes", "from before the fork" },
	{ "by_kernel", "pages_by_kernel_bytes", "by the kernel or another process" },
	{ "unattributed", "pages_unattributed_bytes", "not attributed" },
	{ "files", "pages_rss_files_bytes", "of files" },
	{ "shared", "pages_rss_shared_bytes", "shared" },
};

/* Beside the sum, or parts of it. */
static const struct {
	const char *name, *key;
} more[] = {
	{ "anonymous", "pages_rss_anon_bytes" }, { "huge", "pages_huge_bytes" }, { "spread", "pages_spread_bytes" },
	{ "swapped", "pages_swapped_bytes" },	 { "zero", "pages_zero_bytes" },
};

bool snapshot_has_pages(const struct snapshot *snapshot)
{
	return snapshot__metadata(snapshot, "pages_by");
}

const char *snapshot_pages_why(const struct snapshot *snapshot)
{
	return snapshot__metadata(snapshot, "pages_why");
}

void emit_pages_why(struct emitter *out, const struct snapshot *snapshot, const char *margin)
{
	const char *why = snapshot_pages_why(snapshot);

	if (why)
		emit_line(out, "%sone page in %" PRIu64 " was recorded, as nothing else sees the memory of %s (PID %s): %s", margin,
			  snapshot__metadata_u64(snapshot, "sample_bytes", 4096) / 4096, snapshot__metadata(snapshot, "comm") ?: "?",
			  snapshot__metadata(snapshot, "pid") ?: "?", why);
}

static const struct pages_by *way_of(const struct snapshot *snapshot)
{
	return pages_by_name(snapshot__metadata(snapshot, "pages_by") ?: "");
}

static bool is_bound(const struct snapshot *snapshot)
{
	return !snapshot__metadata(snapshot, "pages_rss_anon_bytes");
}

static bool has_scan(const struct snapshot *snapshot, const char *scan)
{
	return !strcmp(snapshot__metadata(snapshot, "pages_scan") ?: "", scan);
}

static uint64_t page_number(const struct snapshot *snapshot, const char *key)
{
	return snapshot__metadata_u64(snapshot, key, 0);
}

static void put_page_sum(struct emitter *out, const struct snapshot *snapshot, const char *margin)
{
	char text[512] = "", size[UNIT_TEXT_MAX];
	uint64_t total = 0;
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		uint64_t bytes = page_number(snapshot, parts[i].key);

		total += bytes;
		if (bytes || !i)
			len += snprintf(text + len, sizeof(text) - len, "%s%s %s", len ? " + " : "",
					format_size(size, bytes, false), parts[i].text);
	}
	if (snapshot__tables(snapshot)->trace_weight) /* the parts are estimates */
		total = page_number(snapshot, "pages_rss_anon_bytes") + page_number(snapshot, "pages_rss_files_bytes") +
			page_number(snapshot, "pages_rss_shared_bytes");
	emit_line(out, "%sRSS %s %s %s", margin, format_size(size, total, false),
		  snapshot__tables(snapshot)->trace_weight ? "≈" : "=", text);
}

static void put_page_notes(struct emitter *out, const struct snapshot *snapshot, const char *margin)
{
	uint64_t huge = page_number(snapshot, "pages_huge_bytes"), spread = page_number(snapshot, "pages_spread_bytes");
	uint64_t swapped = page_number(snapshot, "pages_swapped_bytes"), missing = page_number(snapshot, "pages_unattributed_bytes");
	const struct pages_by *way = way_of(snapshot);
	char text[UNIT_TEXT_MAX], more_text[UNIT_TEXT_MAX];

	if (missing && way)
		emit_line(out, "%snot attributed: what %s not show: %s", margin, way->text, way->unseen);
	if (has_scan(snapshot, "with zeros"))
		emit_line(out, "%spages that were only read are among these, too, although they are in no RSS: before Linux 6.7 they "
			  "look like pages that another process shares", margin);
	if (huge)
		emit_line(out, "%sin huge pages: %s, of which %s count where another page of theirs was touched first", margin,
			  format_size(text, huge, false), format_size(more_text, spread, false));
	if (swapped)
		emit_line(out, "%sswapped out, beside RSS: %s", margin, format_size(text, swapped, false));
}

int render_pages(FILE *file, const struct snapshot *snapshot, const char *margin)
{
	struct emitter out = emit_to(file, false);

	if (is_bound(snapshot)) {
		emit_line(&out, "%swhat is resident is not known, as %s: these are all pages that it brought, also those that it gave back", margin,
			  has_scan(snapshot, "unread") ? "the process's pages could not be read (its main thread has ended, or, before Linux 6.7, "
							 "it maps more than 256 GiB)" : "the process had ended");
	} else {
		put_page_sum(&out, snapshot, margin);
		put_page_notes(&out, snapshot, margin);
	}
	emit_pages_why(&out, snapshot, margin);
	emit_line(&out, "%s%s", margin, PAGES_MEANING);
	return emit_finish(&out);
}

void emit_pages(struct emitter *out, const struct snapshot *snapshot)
{
	const struct pages_by *way = way_of(snapshot);

	if (!snapshot_has_pages(snapshot))
		return;
	emit_object(out, "pages");
	emit_text(out, "by", way ? way->name : NULL);
	emit_text(out, "unseen", way ? way->unseen : NULL);
	emit_text(out, "meaning", PAGES_MEANING);
	emit_text(out, "why", snapshot_pages_why(snapshot));
	emit_bool(out, "ended", is_bound(snapshot) && !has_scan(snapshot, "unread"));
	emit_bool(out, "resident_known", !is_bound(snapshot));
	if (has_scan(snapshot, "with zeros"))
		emit_bool(out, "with_zeros", true);
	for (size_t i = 0; i < ARRAY_SIZE(parts) && !is_bound(snapshot); i++)
		emit_uint(out, parts[i].name, page_number(snapshot, parts[i].key));
	for (size_t i = 0; i < ARRAY_SIZE(more) && !is_bound(snapshot); i++)
		emit_uint(out, more[i].name, page_number(snapshot, more[i].key));
	emit_end(out);
}
