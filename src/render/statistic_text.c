// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/statistic_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "engine.h"
#include "render.h"

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

static const char *count_error_text(char text[ERROR_TEXT_MAX], int64_t count,
				    const struct interval *interval)
{
	uint64_t error = interval ? interval_error(count, interval) : 0;

	*text = '\0';
	if (error)
		snprintf(text, ERROR_TEXT_MAX, " ±%" PRIu64, error);
	return text;
}

const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff,
		      const struct estimate *estimate)
{
	char size[SIZE_TEXT_MAX], size_diff[SIZE_TEXT_MAX];
	char error[4][ERROR_TEXT_MAX];

	size_text(size, cost->size, false);
	size_error_text(error[0], cost->size, estimate ? &estimate->size : NULL);
	count_error_text(error[1], cost->count, estimate ? &estimate->count : NULL);
	if (!diff) {
		snprintf(text, COST_TEXT_MAX, "size=%s%s, count=%" PRId64 "%s", size, error[0],
			 cost->count, error[1]);
		return text;
	}
	size_text(size_diff, diff->size, true);
	size_error_text(error[2], diff->size, estimate ? &estimate->size_diff : NULL);
	count_error_text(error[3], diff->count, estimate ? &estimate->count_diff : NULL);
	snprintf(text, COST_TEXT_MAX, "size=%s%s (%s%s), count=%" PRId64 "%s (%+" PRId64 "%s)", size,
		 error[0], size_diff, error[2], cost->count, error[1], diff->count, error[3]);
	return text;
}

static char *format_named(const struct statistic *statistic, const char *text)
{
	const struct frame_view *oldest = statistic->frame;
	char *whole;
	int len;

	if (statistic->key)
		len = asprintf(&whole, "%s: %s", statistic->key, text);
	else
		len = asprintf(&whole, "%s:%" PRIu32 ": %s", oldest->filename, oldest->lineno,
			       text);
	return len < 0 ? NULL : whole;
}

char *statistic_text(const struct statistic *statistic, bool is_diff)
{
	const struct cost *cost = &statistic->cost;
	char costs[COST_TEXT_MAX], average[SIZE_TEXT_MAX], text[COST_TEXT_MAX + SIZE_TEXT_MAX + 16];

	cost_text(costs, cost, is_diff ? &statistic->diff : NULL, statistic->estimate);
	if (!cost->count)
		return format_named(statistic, costs);
	size_text(average, (double)cost->size / cost->count, false);
	snprintf(text, sizeof(text), "%s, average=%s", costs, average);
	return format_named(statistic, text);
}
