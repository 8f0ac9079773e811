// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text_stream.h"
#include "engine.h"
#include "render/clean.h"
#include "render/formats.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"

/* Names a single frame that is its group's key, not a function: "FILE", "FILE:LINE". */
static char *key_name(const struct readable_names *names, const struct frame_view *frame, enum key_type key_type)
{
	char *text;

	if (key_type == KEY_FILENAME)
		return strdup(frame->filename);
	if (key_type == KEY_TRACEBACK || !frame->lineno)
		return frame_name(names, frame);
	if (asprintf(&text, "%s:%" PRIu32, frame->filename, frame->lineno) < 0)
		return NULL;
	return text;
}

/* Writes a name with ';' replaced, because ';' separates frames. Frees the name. */
static int put_name(FILE *out, char *name)
{
	char *clean = name ? clean_copy(name) : NULL;
	int err = 0;

	free(name);
	if (!clean)
		return -ENOMEM;
	for (char *at = clean; (at = strchr(at, ';'));)
		*at = ':';
	if (fputs(clean, out) < 0)
		err = -errno ?: -EIO;
	free(clean);
	return err;
}

static int put_stack(FILE *out, const struct readable_names *names, const struct statistic *statistic,
		     enum key_type key_type)
{
	int err = 0;

	if (statistic->key)
		return put_name(out, statistic_name(names, statistic, key_type));
	for (uint32_t i = 0; i < statistic->nframe && !err; i++) {
		if (i)
			putc(';', out);
		err = put_name(out, key_name(names, &statistic->frame[i], key_type));
	}
	return err;
}

/* A line: a stack and its bytes. */
struct folded_line {
	char *stack;
	int64_t bytes;
};

struct folded_lines {
	struct folded_line *line;
	size_t line_nr, line_alloc;
};

/* Viewers draw a negative number wrong or not at all, so a diff is what grew alone, or what shrank alone. */
static int64_t folded_bytes(const struct report *report, const struct statistic *statistic)
{
	bool is_shrinkage = report->engine && report->engine->sort == SORT_SHRINK;

	if (!report->statistics->is_diff)
		return statistic->cost.size;
	return is_shrinkage ? -statistic->diff.size : statistic->diff.size;
}

static int add_folded_line(struct folded_lines *lines, const struct report *report, const struct readable_names *names,
			   const struct statistic *statistic)
{
	struct folded_line line = { .bytes = folded_bytes(report, statistic) };
	size_t len;
	FILE *out = open_memstream(&line.stack, &len);
	int err = out ? put_stack(out, names, statistic, report->statistics->key_type) : -ENOMEM;

	if (out)
		err = text_stream_close(out, &line.stack) ?: err;
	err = err ?: array_push(lines, line, line);
	if (err)
		free(line.stack);
	return err;
}

static int compare_stacks(const void *a, const void *b)
{
	return strcmp(((const struct folded_line *)a)->stack, ((const struct folded_line *)b)->stack);
}

/*
 * Sorted, so that viewers in the order of the file draw equal callers as one. Equal stacks, which differ in lines only,
 * are one line.
 */
static int put_folded_lines(FILE *out, struct folded_lines *lines, bool is_diff)
{
	int64_t bytes = 0;

	qsort(lines->line, lines->line_nr, sizeof(*lines->line), compare_stacks);
	for (size_t i = 0; i < lines->line_nr; i++) {
		bytes += lines->line[i].bytes;
		if (i + 1 < lines->line_nr && !compare_stacks(&lines->line[i], &lines->line[i + 1]))
			continue;
		if ((!is_diff || bytes > 0) && fprintf(out, "%s %" PRId64 "\n", lines->line[i].stack, bytes) < 0)
			return -errno ?: -EIO;
		bytes = 0;
	}
	return 0;
}

static int put_stacks(FILE *out, const struct report *report, const struct readable_names *names)
{
	const struct statistics *statistics = report->statistics;
	struct folded_lines lines = {};
	size_t shown = report_rows(report);
	int err = 0;

	for (size_t i = 0; i < shown && !err; i++)
		err = add_folded_line(&lines, report, names, &statistics->statistic[i]);
	if (!err && lines.line_nr)
		err = put_folded_lines(out, &lines, statistics->is_diff);
	for (size_t i = 0; i < lines.line_nr; i++)
		free(lines.line[i].stack);
	free(lines.line);
	return err;
}

/* People read these names in flame graphs. Different functions keep different names (readable_name.h). */
int folded_put_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	struct readable_names names = {};
	int err = 0;

	if (!report->full_names)
		err = readable_names_add(&names, statistics->statistic, report_rows(report), statistics->key_type);
	err = err ?: put_stacks(out, report, report->full_names ? NULL : &names);
	readable_names_release(&names);
	return err;
}
