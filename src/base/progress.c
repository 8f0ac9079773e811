// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/progress.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/terminal.h"
#include "base/units.h"

#define SILENT_NS SECOND_NS /* short works show nothing */

static _Thread_local bool is_allowed;
static _Thread_local const struct progress *shown; /* the line is of this one */

void progress_allow(bool is_allowed_now)
{
	is_allowed = is_allowed_now;
}

struct progress progress_begin(const char *work, const char *unit, uint64_t all)
{
	return (struct progress){ work, unit, all, monotonic_now_ns() };
}

/* "4000 files", "12.3 MiB" */
static const char *amount_text(char text[UNIT_TEXT_MAX], const struct progress *progress, uint64_t nr, const char *unit)
{
	if (!progress->unit)
		return format_size(text, nr, false);
	snprintf(text, UNIT_TEXT_MAX, "%" PRIu64 "%s%s", nr, *unit ? " " : "", unit);
	return text;
}

/* "40/s", "0.3/s", "12.3 MiB/s" */
static const char *speed_text(char text[UNIT_TEXT_MAX], const struct progress *progress, double per_s)
{
	char size[UNIT_TEXT_MAX];

	if (!progress->unit)
		snprintf(text, UNIT_TEXT_MAX, "%.40s/s", format_size(size, per_s, false));
	else
		snprintf(text, UNIT_TEXT_MAX, "%.*f/s", per_s < 9.95, per_s);
	return text;
}

const char *progress_text(char text[PROGRESS_TEXT_MAX], const struct progress *progress, uint64_t done,
			  uint64_t spent_ns)
{
	double seconds = spent_ns / (double)SECOND_NS, per_s = seconds > 0 ? done / seconds : 0;
	char part[UNIT_TEXT_MAX], whole[UNIT_TEXT_MAX], speed[UNIT_TEXT_MAX];
	const char *unit = progress->unit ?: "";
	int len;

	if (!progress->all || done > progress->all) {
		snprintf(text, PROGRESS_TEXT_MAX, "%s: %s, %s", progress->work,
			 amount_text(part, progress, done, unit), speed_text(speed, progress, per_s));
		return text;
	}
	len = snprintf(text, PROGRESS_TEXT_MAX, "%s: %s of %s (%.0f %%), %s", progress->work,
		       amount_text(part, progress, done, ""), amount_text(whole, progress, progress->all, unit),
		       100.0 * done / progress->all, speed_text(speed, progress, per_s));
	if (per_s > 0 && len < PROGRESS_TEXT_MAX)
		snprintf(text + len, PROGRESS_TEXT_MAX - len, ", %.0f s left", (progress->all - done) / per_s);
	return text;
}

void progress_show(const struct progress *progress, uint64_t done)
{
	char text[PROGRESS_TEXT_MAX];
	uint64_t spent_ns;
	int columns;

	if (!is_allowed)
		return;
	spent_ns = monotonic_now_ns() - progress->begun_ns;
	if (spent_ns < SILENT_NS || !status_line_is_due())
		return;
	columns = status_line_columns();
	progress_text(text, progress, done, spent_ns);
	if (columns < PROGRESS_TEXT_MAX)
		text[columns] = '\0'; /* all of its bytes are ASCII */
	status_line_show(text);
	shown = progress;
}

/* A work within another one leaves the line of that one alone. */
void progress_end(const struct progress *progress)
{
	if (shown != progress)
		return;
	shown = NULL;
	status_line_clear();
}
