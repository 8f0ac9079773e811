// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/statistic_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "engine.h"
#include "render.h"
#include "render/readable_name.h"
#include "render/source_tree.h"

const char *domain_text(char text[DOMAIN_TEXT_MAX], const struct snapshot *snapshot, uint32_t domain)
{
	const char *name = snapshot__domain_name(snapshot, domain);

	if (name)
		snprintf(text, DOMAIN_TEXT_MAX, "%" PRIu32 " (%s)", domain, name);
	else
		snprintf(text, DOMAIN_TEXT_MAX, "%" PRIu32, domain);
	return text;
}

/* Takes the name from the new snapshot of two, if it has one. */
const char *statistic_domain_name(const struct report *report, const struct statistic *statistic)
{
	const char *name = NULL;
	uint64_t domain;

	if (report->statistics->key_type != KEY_DOMAIN ||
	    parse_count(statistic->key, 0, UINT32_MAX, &domain))
		return NULL;
	for (size_t i = report->snapshot_nr; i-- && !name;)
		name = snapshot__domain_name(report->snapshot[i], domain);
	return name;
}

__attribute__((format(printf, 1, 2))) static char *format_frame_part(const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	return text;
}

/* Offset 0 means not known: a return address comes after a call, so it is never 0. */
static bool has_place(const struct frame_view *frame)
{
	return frame->object || frame->offset;
}

/* "OBJECT+0xOFFSET", or the address if there is no object. */
static char *place_text(const struct frame_view *frame)
{
	if (!frame->object)
		return format_frame_part("0x%" PRIx64, frame->offset);
	if (!frame->offset)
		return strdup(frame->object);
	return format_frame_part("%s+0x%" PRIx64, frame->object, frame->offset);
}

static char *nameless_text(const struct frame_view *frame)
{
	if (frame->lineno)
		return format_frame_part("%s:%" PRIu32, frame->filename, frame->lineno);
	if (has_place(frame))
		return place_text(frame);
	return strdup(frame->filename);
}

char *frame_function(const struct readable_names *names, const struct frame_view *frame)
{
	return frame->has_variants ? function_base_name(frame->function) : readable_name(names, frame->function);
}

/* "FUNCTION (PLACE)", "FUNCTION at FILE:LINE" or "FUNCTION". */
char *frame_text(const struct readable_names *names, const struct frame_view *frame, size_t *ret_tail)
{
	char *function = frame->function ? frame_function(names, frame) : NULL, *text = NULL;
	char *place = !frame->lineno && has_place(frame) ? place_text(frame) : strdup("");

	*ret_tail = function ? strlen(function) : 0;
	if (!frame->function)
		text = nameless_text(frame);
	else if (function && place && *place)
		text = format_frame_part("%s (%s)", function, place);
	else if (function && place && frame->lineno)
		text = format_frame_part("%s at %s:%" PRIu32, function, frame->filename, frame->lineno);
	else if (function && place)
		text = strdup(function);
	free(function);
	free(place);
	return text;
}

char *frame_without_folder(char *text, size_t tail_at)
{
	char *first = text ? strchr(text + tail_at, '/') : NULL, *last = text ? strrchr(text + tail_at, '/') : NULL;
	char *shorter;

	if (!first || first == last)
		return text;
	shorter = format_frame_part("%.*s…%s", (int)(first - text), text, last);
	free(text);
	return shorter;
}

char *frame_name(const struct readable_names *names, const struct frame_view *frame)
{
	return frame->function ? frame_function(names, frame) : nameless_text(frame);
}

char *frame_extra(const struct readable_names *names, const struct frame_view *frame)
{
	char *function = frame->function && frame->lineno ? frame_function(names, frame) : NULL, *text;

	if (!frame->function || !frame->lineno)
		return strdup("");
	text = function ? format_frame_part("in %s", function) : NULL;
	free(function);
	return text;
}

_Static_assert(SIZE_TEXT_MAX == UNIT_TEXT_MAX, "size_text() is format_size()");

const char *size_text(char text[SIZE_TEXT_MAX], double bytes, bool with_sign)
{
	return format_size(text, bytes, with_sign);
}

/* Returns the distance from the number to the farther end of the interval; 0: the number is exact. */
static uint64_t interval_error(int64_t number, const struct interval *interval)
{
	uint64_t below = (uint64_t)number - interval->low, above = (uint64_t)interval->high - number;

	return below > above ? below : above;
}

#define ERROR_TEXT_MAX (SIZE_TEXT_MAX + 4)

static const char *size_error_text(char text[ERROR_TEXT_MAX], int64_t size,
				   const struct interval *interval)
{
	uint64_t error = interval ? interval_error(size, interval) : 0;
	char number[SIZE_TEXT_MAX];

	*text = '\0';
	if (error)
		snprintf(text, ERROR_TEXT_MAX, " ±%s", size_text(number, error, false));
	return text;
}

/* interval NULL: the count is an estimate, and how far off it may be is not known. */
static const char *count_error_text(char text[ERROR_TEXT_MAX], int64_t count,
				    const struct interval *interval)
{
	uint64_t error = interval ? interval_error(count, interval) : 0;

	*text = '\0';
	if (!interval)
		snprintf(text, ERROR_TEXT_MAX, " ±?");
	else if (error)
		snprintf(text, ERROR_TEXT_MAX, " ±%" PRIu64, error);
	return text;
}

const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff,
		      const struct estimate *estimate)
{
	char size[SIZE_TEXT_MAX], size_diff[SIZE_TEXT_MAX];
	char error[4][ERROR_TEXT_MAX] = {};

	if (estimate && !estimate->has_intervals)
		estimate = NULL;
	size_text(size, cost->size, false);
	size_error_text(error[0], cost->size, estimate ? &estimate->size : NULL);
	if (estimate)
		count_error_text(error[1], cost->count, estimate->has_count ? &estimate->count : NULL);
	if (!diff) {
		snprintf(text, COST_TEXT_MAX, "size=%s%s, count=%" PRId64 "%s", size, error[0],
			 cost->count, error[1]);
		return text;
	}
	size_text(size_diff, diff->size, true);
	size_error_text(error[2], diff->size, estimate ? &estimate->size_diff : NULL);
	if (estimate)
		count_error_text(error[3], diff->count, estimate->has_count_diff ? &estimate->count_diff : NULL);
	snprintf(text, COST_TEXT_MAX, "size=%s%s (%s%s), count=%" PRId64 "%s (%+" PRId64 "%s)", size,
		 error[0], size_diff, error[2], cost->count, error[1], diff->count, error[3]);
	return text;
}

static const struct frame_view *statistic_head(const struct statistic *statistic)
{
	return statistic->head ? statistic->head : statistic->frame;
}

bool statistic_has_line(const struct statistic *statistic)
{
	const struct frame_view *head = statistic_head(statistic);

	return head->lineno || (!head->function && !has_place(head));
}

char *statistic_name(const struct readable_names *names, const struct statistic *statistic, enum key_type key_type)
{
	const struct frame_view *head = statistic_head(statistic);
	size_t tail;

	if (!statistic->key && statistic_has_line(statistic))
		return format_frame_part("%s:%" PRIu32, head->filename, head->lineno);
	if (!statistic->key)
		return frame_text(names, head, &tail);
	return key_type == KEY_FUNCTION ? readable_name(names, statistic->key) : strdup(statistic->key);
}

char *statistic_costs(const struct statistic *statistic, bool is_diff)
{
	const struct cost *cost = &statistic->cost;
	char costs[COST_TEXT_MAX], average[SIZE_TEXT_MAX];

	cost_text(costs, cost, is_diff ? &statistic->diff : NULL, statistic->estimate);
	if (!cost->count)
		return strdup(costs);
	size_text(average, (double)cost->size / cost->count, false);
	return format_frame_part("%s, average=%s", costs, average);
}

char *statistic_text(const struct statistic *statistic, bool is_diff)
{
	char *name = statistic_name(NULL, statistic, KEY_LINENO), *costs = statistic_costs(statistic, is_diff);
	char *text = name && costs ? format_frame_part("%s: %s", name, costs) : NULL;

	free(name);
	free(costs);
	return text;
}

/* ---- tracemalloc's Traceback.format() ---- */

/* The frames that a limit leaves: Python's frames[-limit:] and frames[:limit]. */
struct slice {
	uint32_t first, nr;
};

static struct slice slice_of(uint32_t nframe, const struct traceback_format_options *options)
{
	uint64_t nr = options->limit < 0 ? -(uint64_t)options->limit : (uint64_t)options->limit;

	if (!options->has_limit || (options->limit > 0 && nr >= nframe))
		return (struct slice){ 0, nframe };
	if (options->limit > 0)
		return (struct slice){ nframe - nr, nr };
	if (!nr || nr >= nframe)
		return (struct slice){};
	return (struct slice){ 0, nframe - nr };
}

static void put_python_frame(FILE *out, const struct frame_view *frame, struct source_tree *tree)
{
	char *line = source_tree__line(tree, frame->filename, frame->lineno);

	fprintf(out, "  File \"%s\", line %" PRIu32 "\n", frame->filename, frame->lineno);
	if (line)
		fprintf(out, "    %s\n", line);
	free(line);
}

char *traceback_format(const struct frame_view *frame, uint32_t nframe,
		       const struct traceback_format_options *options)
{
	static const struct traceback_format_options defaults;
	struct slice slice = slice_of(nframe, options ?: &defaults);
	bool most_recent_first = options && options->most_recent_first;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct source_tree *tree;

	if (!out)
		return NULL;
	tree = source_tree__open(options ? options->source_dir : NULL);
	for (uint32_t i = 0; i < slice.nr; i++) {
		uint32_t at = most_recent_first ? slice.nr - 1 - i : i;

		put_python_frame(out, &frame[slice.first + at], tree);
	}
	source_tree__close(tree);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}
