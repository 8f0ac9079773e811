// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/clean.h"
#include "render/formats.h"
#include "render/statistic_text.h"

/*
 * Puts a comma and a text in quotes. A spreadsheet takes a text that begins with one of these characters for a formula,
 * and names come from untrusted processes: an apostrophe in front makes it text. Where ';' separates cells it would begin
 * one, because a quote after a comma does not count then: it becomes ':'.
 */
static int put_text(FILE *out, const char *text)
{
	char *clean = clean_copy(text ?: "");

	if (!clean)
		return -ENOMEM;
	fputs(",\"", out);
	if (*clean && strchr("=+-@|%", *clean))
		putc('\'', out);
	for (const char *c = clean; *c; c++)
		fputs((char[]){ *c == ';' ? ':' : *c, *c == '"' ? '"' : '\0', '\0' }, out);
	putc('"', out);
	free(clean);
	return 0;
}

static void put_cost(FILE *out, const struct cost *cost)
{
	fprintf(out, ",%" PRId64 ",%" PRId64, cost->size, cost->count);
}

static void put_interval(FILE *out, const struct interval *interval)
{
	fprintf(out, ",%" PRId64 ",%" PRId64, interval->low, interval->high);
}

static bool has_intervals(const struct statistics *statistics)
{
	return statistics->total_estimate && statistics->total_estimate->has_intervals;
}

static void put_csv_numbers(FILE *out, const struct report *report, const struct statistic *statistic)
{
	bool is_diff = report->statistics->is_diff;

	fprintf(out, "%" PRId64 ",%" PRId64, statistic->cost.size, statistic->cost.count);
	if (is_diff)
		put_cost(out, &statistic->diff);
	if (!has_intervals(report->statistics))
		return;
	put_interval(out, &statistic->estimate->size);
	if (is_diff)
		put_interval(out, &statistic->estimate->size_diff);
}

/* The most recent call first, as in all JSON. */
static char *callers_text(const struct statistic *statistic)
{
	char *text = NULL;
	size_t len, tail_at;
	FILE *out = open_memstream(&text, &len);
	bool failed = !out;

	for (uint32_t i = statistic->nframe; i-- && !failed;) {
		char *frame = frame_text(NULL, &statistic->frame[i], &tail_at);

		failed = !frame;
		if (frame)
			fprintf(out, "%s%s", frame, i ? " < " : "");
		free(frame);
	}
	if (out && fclose(out))
		failed = true;
	if (!failed)
		return text;
	free(text);
	return NULL;
}

/* The group's own columns: a key, or its frame, and for tracebacks all frames. */
static int put_group(FILE *out, const struct report *report, const struct statistic *statistic)
{
	const struct frame_view *head = statistic->head ?: statistic->frame;
	char *function, *callers;
	int err;

	if (statistic->key)
		return put_text(out, statistic->key);
	function = head->function ? frame_function(NULL, head) : strdup("");
	callers = callers_text(statistic);
	err = function && callers ? put_text(out, head->filename) : -ENOMEM;
	if (!err)
		fprintf(out, ",%" PRIu32, head->lineno);
	err = err ?: put_text(out, function) ?: put_text(out, head->object);
	if (!err && report->statistics->key_type == KEY_TRACEBACK)
		err = put_text(out, callers);
	free(function);
	free(callers);
	return err;
}

static bool has_keys(const struct statistics *statistics)
{
	return statistics->key_type != KEY_LINENO && statistics->key_type != KEY_FILENAME &&
	       statistics->key_type != KEY_TRACEBACK;
}

static int put_csv_head(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;

	fputs("size,count", out);
	if (statistics->is_diff)
		fputs(",size_diff,count_diff", out);
	if (has_intervals(statistics))
		fputs(",size_low,size_high", out);
	if (has_intervals(statistics) && statistics->is_diff)
		fputs(",size_diff_low,size_diff_high", out);
	if (has_keys(statistics))
		fprintf(out, ",%s", key_type_name(statistics->key_type));
	else
		fputs(",filename,lineno,function,object", out);
	if (statistics->key_type == KEY_TRACEBACK)
		fputs(",traceback", out);
	return putc('\n', out) < 0 ? -errno ?: -EIO : 0;
}

int csv_put_report(FILE *out, const struct report *report)
{
	size_t shown = report_rows(report);
	int err = put_csv_head(out, report);

	for (size_t i = 0; i < shown && !err; i++) {
		put_csv_numbers(out, report, &report->statistics->statistic[i]);
		err = put_group(out, report, &report->statistics->statistic[i]);
		if (!err && putc('\n', out) < 0)
			err = -errno ?: -EIO;
	}
	return err;
}
