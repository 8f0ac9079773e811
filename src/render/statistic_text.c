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

const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff)
{
	char size[SIZE_TEXT_MAX], size_diff[SIZE_TEXT_MAX];

	size_text(size, cost->size, false);
	if (diff)
		snprintf(text, COST_TEXT_MAX, "size=%s (%s), count=%" PRId64 " (%+" PRId64 ")",
			 size, size_text(size_diff, diff->size, true), cost->count, diff->count);
	else
		snprintf(text, COST_TEXT_MAX, "size=%s, count=%" PRId64, size, cost->count);
	return text;
}

static char *named(const struct statistic *statistic, const char *text)
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

	cost_text(costs, cost, is_diff ? &statistic->diff : NULL);
	if (!cost->count)
		return named(statistic, costs);
	size_text(average, (double)cost->size / cost->count, false);
	snprintf(text, sizeof(text), "%s, average=%s", costs, average);
	return named(statistic, text);
}
