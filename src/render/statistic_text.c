// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/statistic_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/units.h"
#include "engine.h"

const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff)
{
	char size[UNIT_TEXT_MAX], size_diff[UNIT_TEXT_MAX];

	format_size(size, cost->size, false);
	if (diff)
		snprintf(text, COST_TEXT_MAX, "size=%s (%s), count=%" PRId64 " (%+" PRId64 ")",
			 size, format_size(size_diff, diff->size, true), cost->count, diff->count);
	else
		snprintf(text, COST_TEXT_MAX, "size=%s, count=%" PRId64, size, cost->count);
	return text;
}

char *statistic_text(const struct statistic *statistic, bool is_diff)
{
	const struct cost *cost = &statistic->cost;
	const struct frame_view *oldest = &statistic->frame[0];
	char costs[COST_TEXT_MAX], average[UNIT_TEXT_MAX] = "", *text;
	int len;

	cost_text(costs, cost, is_diff ? &statistic->diff : NULL);
	if (cost->count)
		format_size(average, (double)cost->size / cost->count, false);
	len = asprintf(&text, "%s:%" PRIu32 ": %s%s%s", oldest->filename, oldest->lineno, costs,
		       cost->count ? ", average=" : "", average);
	return len < 0 ? NULL : text;
}
