// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "snapshot/private.h"

#define CACHE_MAX (256ull << 20) /* bytes of text */

/* Caches the text of each traceback that was written and fits: most of a trace is that text. */
struct export {
	const struct snapshot *snapshot;
	FILE *out;
	FILE *cache;
	char *text;
	size_t text_len;
	struct cached {
		size_t start, len; /* 0: not in the cache */
	} *traceback; /* by id */
};

static void write_json_bytes(FILE *out, const char *bytes, size_t len)
{
	fwrite_unlocked(bytes, 1, len, out);
}

static bool is_plain(const char *s, size_t len)
{
	return len && (unsigned char)*s >= 0x20 && *s != '"' && *s != '\\';
}

/* Bytes that are not UTF-8 become the text "\\xNN". */
static void put_string(FILE *out, const char *s)
{
	putc_unlocked('"', out);
	while (*s) {
		const char *start = s;
		size_t len;

		while (*s && is_plain(s, len = utf8_len(s)))
			s += len;
		write_json_bytes(out, start, s - start);
		if (!*s)
			break;
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else
			fprintf(out, (unsigned char)*s < 0x20 ? "\\u%04x" : "\\\\x%02x",
				(unsigned char)*s);
		s++;
	}
	putc_unlocked('"', out);
}

static void write_json_frame(const struct export *e, FILE *out, uint32_t id)
{
	const struct snap_frame *frame = &e->snapshot->tables.frame[id];

	putc_unlocked('[', out);
	put_string(out, snapshot__string(e->snapshot, frame->filename));
	fprintf(out, ", %" PRIu32 "]", frame->lineno);
}

/*
 * Writes the trace from the frames' list on. A weight must follow a total, so a missing total
 * becomes null.
 */
static void put_traceback(const struct export *e, FILE *out, uint32_t id)
{
	const struct snapshot_tables *t = &e->snapshot->tables;
	const struct snap_traceback *traceback = &t->traceback[id];

	putc_unlocked('[', out);
	if (!traceback->nframe)
		fputs("[\"<unknown>\", 0]", out);
	for (uint32_t i = 0; i < traceback->nframe; i++) {
		if (i)
			write_json_bytes(out, ", ", 2);
		write_json_frame(e, out, t->traceback_frame[traceback->first + i]);
	}
	putc_unlocked(']', out);
	if (traceback->total_nframe)
		fprintf(out, ", %" PRIu32, traceback->total_nframe);
	else if (t->trace_weight)
		fputs(", null", out);
}

/* Writes the shortest digits that read as the same number, as Python does. */
static void put_weight(FILE *out, double weight)
{
	char text[32];
	int digits = 1;

	do {
		snprintf(text, sizeof(text), "%.*g", digits, weight);
	} while (strtod(text, NULL) != weight && digits++ < 17);
	fprintf(out, ", %s", text);
}

/* An upper bound of the text's length. */
static uint64_t length_bound(const struct export *e, uint32_t id)
{
	const struct snapshot_tables *t = &e->snapshot->tables;
	const struct snap_traceback *traceback = &t->traceback[id];
	uint64_t bound = 64;

	for (uint32_t i = 0; i < traceback->nframe; i++) {
		uint32_t frame = t->traceback_frame[traceback->first + i];

		bound += 32 + 6 * strlen(snapshot__string(e->snapshot, t->frame[frame].filename));
	}
	return bound;
}

/* Returns true if the traceback is in the cache now. */
static bool cache_traceback(struct export *e, uint32_t id)
{
	struct cached *cached = &e->traceback[id];

	if (cached->len)
		return true;
	if (e->text_len + length_bound(e, id) > CACHE_MAX)
		return false;
	cached->start = e->text_len;
	put_traceback(e, e->cache, id);
	if (fflush(e->cache))
		return false;
	cached->len = e->text_len - cached->start;
	return true;
}

static void put_trace(struct export *e, uint64_t at)
{
	const struct snapshot_tables *t = &e->snapshot->tables;
	uint32_t traceback = t->trace_traceback[at];

	fprintf(e->out, "%s\n[%" PRIu32 ", %" PRIu64 ", ", at ? "," : "",
		t->trace_domain ? t->trace_domain[at] : 0, t->trace_size[at]);
	if (cache_traceback(e, traceback))
		write_json_bytes(e->out, e->text + e->traceback[traceback].start, e->traceback[traceback].len);
	else
		put_traceback(e, e->out, traceback);
	if (t->trace_weight)
		put_weight(e->out, t->trace_weight[at]);
	putc_unlocked(']', e->out);
}

static uint64_t limit_of(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = &snapshot->tables;
	uint32_t longest = 1;

	for (uint32_t i = 0; i < t->traceback_nr; i++)
		if (t->traceback[i].nframe > longest)
			longest = t->traceback[i].nframe;
	return snapshot__metadata_u64(snapshot, "traceback_limit", longest);
}

static int write_snapshot_json(struct export *e)
{
	uint64_t nr = e->snapshot->tables.trace_nr;

	fprintf(e->out, "{\"traceback_limit\": %" PRIu64 ", \"traces\": [",
		limit_of(e->snapshot));
	for (uint64_t i = 0; i < nr && !ferror_unlocked(e->out) && !ferror_unlocked(e->cache); i++)
		put_trace(e, i);
	fputs(nr ? "\n]}\n" : "]}\n", e->out);
	if (ferror(e->cache))
		return -ENOMEM;
	return fflush(e->out) || ferror(e->out) ? -errno ?: -EIO : 0;
}

int snapshot__export_json(const struct snapshot *snapshot, FILE *out)
{
	struct export e = { .snapshot = snapshot, .out = out };
	int err = -ENOMEM;

	errno = 0;
	e.traceback = calloc(snapshot->tables.traceback_nr, sizeof(*e.traceback));
	e.cache = open_memstream(&e.text, &e.text_len);
	if (e.traceback && e.cache)
		err = write_snapshot_json(&e);
	if (e.cache)
		fclose(e.cache);
	free(e.text);
	free(e.traceback);
	return err;
}
