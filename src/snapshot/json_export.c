// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/progress.h"
#include "base/text_stream.h"
#include "base/units.h"
#include "snapshot/private.h"

/*
 * A trace is mostly the text of its traceback, and many traces share one. So the text of the first
 * tracebacks, up to TEXTS_MAX bytes, is made in memory once, and copied from there.
 */
#define TEXTS_MAX (64 << 20)

struct traceback_texts {
	char *bytes;
	size_t bytes_nr;
	size_t *end; /* by traceback */
	uint32_t nr; /* tracebacks with a text */
};

struct export {
	const struct snapshot *snapshot;
	FILE *out;
	struct traceback_texts texts;
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

static void write_json_frame(const struct snapshot *snapshot, FILE *out, uint32_t id)
{
	const struct snap_frame *frame = &snapshot->tables.frame[id];

	putc_unlocked('[', out);
	put_string(out, snapshot__string(snapshot, frame->filename));
	fprintf(out, ", %" PRIu32 "]", frame->lineno);
}

/*
 * Writes the trace from the frames' list on. A weight must follow a total, so a missing total
 * becomes null.
 */
static void put_traceback(const struct snapshot *snapshot, FILE *out, uint32_t id)
{
	const struct snapshot_tables *t = &snapshot->tables;
	const struct snap_traceback *traceback = &t->traceback[id];

	putc_unlocked('[', out);
	if (!traceback->nframe)
		fputs("[\"<unknown>\", 0]", out);
	for (uint32_t i = 0; i < traceback->nframe; i++) {
		if (i)
			write_json_bytes(out, ", ", 2);
		write_json_frame(snapshot, out, t->traceback_frame[traceback->first + i]);
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

/* Whether the traceback's text surely fits into TEXTS_MAX bytes after the first `used`. */
static bool has_room_for_text(const struct snapshot *snapshot, uint32_t id, uint64_t used)
{
	const struct snapshot_tables *t = &snapshot->tables;
	const struct snap_traceback *traceback = &t->traceback[id];

	used += 64;
	for (uint32_t i = 0; i < traceback->nframe && used <= TEXTS_MAX; i++) {
		uint32_t frame = t->traceback_frame[traceback->first + i];

		used += 32 + 6 * strlen(snapshot__string(snapshot, t->frame[frame].filename));
	}
	return used <= TEXTS_MAX;
}

static int write_texts(const struct snapshot *snapshot, struct traceback_texts *texts)
{
	FILE *out = open_memstream(&texts->bytes, &texts->bytes_nr);
	long end = 0;

	if (!out)
		return -errno;
	while (texts->nr < snapshot->tables.traceback_nr && end >= 0 &&
	       has_room_for_text(snapshot, texts->nr, end)) {
		put_traceback(snapshot, out, texts->nr);
		end = ftell(out);
		texts->end[texts->nr++] = end;
	}
	return text_stream_close(out, &texts->bytes) ?: end < 0 ? -ENOMEM : 0;
}

static void put_traceback_text(const struct export *e, uint32_t id)
{
	size_t start = id ? e->texts.end[id - 1] : 0;

	if (id < e->texts.nr)
		write_json_bytes(e->out, e->texts.bytes + start, e->texts.end[id] - start);
	else
		put_traceback(e->snapshot, e->out, id);
}

static void put_trace(const struct export *e, uint64_t at)
{
	const struct snapshot_tables *t = &e->snapshot->tables;

	fprintf(e->out, "%s\n[%" PRIu32 ", %" PRIu64 ", ", at ? "," : "",
		t->trace_domain ? t->trace_domain[at] : 0, t->trace_size[at]);
	put_traceback_text(e, t->trace_traceback[at]);
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

static int write_traces(const struct export *e)
{
	uint64_t nr = e->snapshot->tables.trace_nr;
	struct progress progress = progress_begin("writing", "blocks", nr);

	errno = 0;
	fprintf(e->out, "{\"traceback_limit\": %" PRIu64 ", \"traces\": [", limit_of(e->snapshot));
	for (uint64_t i = 0; i < nr && !ferror_unlocked(e->out); i++) {
		progress_show_row(&progress, i);
		put_trace(e, i);
	}
	progress_end(&progress);
	fputs(nr ? "\n]}\n" : "]}\n", e->out);
	return fflush(e->out) || ferror(e->out) ? -errno ?: -EIO : 0;
}

int snapshot__export_json(const struct snapshot *snapshot, FILE *out)
{
	struct export e = { .snapshot = snapshot, .out = out };
	int err;

	e.texts.end = calloc(snapshot->tables.traceback_nr + 1, sizeof(*e.texts.end));
	err = e.texts.end ? write_texts(snapshot, &e.texts) : -ENOMEM;
	err = err ?: write_traces(&e);
	free(e.texts.bytes);
	free(e.texts.end);
	return err;
}
