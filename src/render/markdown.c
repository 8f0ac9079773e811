// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A summary to paste into a ticket, in GitHub's Markdown. Every text of the process stands in a code span, in which
 * neither Markdown nor HTML means anything.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "render/clean.h"
#include "render/cohorts.h"
#include "render/formats.h"
#include "render/readable_name.h"
#include "render/statistic_text.h"
#include "snapshot.h"

#define CALLERS_MAX 5 /* frames of a traceback */

static size_t longest_run_of_backticks(const char *text)
{
	size_t longest = 0, run = 0;

	for (; *text; text++) {
		run = *text == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	return longest;
}

static void put_backticks(FILE *out, size_t nr)
{
	while (nr--)
		putc('`', out);
}

/*
 * A code span ends at a run of as many backticks as it began with, so it gets one more than any in the text. A '|' ends
 * a cell of a table even in a code span, unless there is a backslash before it.
 */
static int put_code(FILE *out, const char *text)
{
	char *clean = text ? clean_copy(text) : NULL;
	size_t fence;

	if (!clean)
		return -ENOMEM;
	fence = longest_run_of_backticks(clean) + 1;
	put_backticks(out, fence);
	if (fence > 1 || !*clean)
		putc(' ', out);
	for (const char *c = clean; *c; c++)
		fputs(*c == '|' ? "\\|" : (char[]){ *c, '\0' }, out);
	if (fence > 1)
		putc(' ', out);
	put_backticks(out, fence);
	free(clean);
	return 0;
}

/* The same, and frees the text. */
static int put_own_code(FILE *out, char *text)
{
	int err = put_code(out, text);

	free(text);
	return err;
}

/* ---- rows ------------------------------------------------------------------------------------------- */

static void put_size_cell(FILE *out, double bytes, bool with_sign)
{
	char text[UNIT_TEXT_MAX];

	fprintf(out, "| %s ", format_size(text, bytes, with_sign));
}

static void put_cost_cells(FILE *out, const struct report *report, const struct cost *cost, const struct cost *diff)
{
	if (report->statistics->is_diff)
		put_size_cell(out, diff->size, true);
	put_size_cell(out, cost->size, false);
	if (report->statistics->is_diff)
		fprintf(out, "| %+" PRId64 " ", diff->count);
	fprintf(out, "| %" PRId64 " | ", cost->count);
}

static int put_markdown_callers(FILE *out, const struct report *report, const struct statistic *statistic)
{
	uint32_t shown = statistic->nframe < CALLERS_MAX ? statistic->nframe : CALLERS_MAX;
	size_t tail_at;
	int err = 0;

	for (uint32_t i = 0; i < shown && !err; i++) {
		fputs(i ? " ← " : "", out);
		err = put_own_code(out, frame_text(report->names, &statistic->frame[statistic->nframe - 1 - i], &tail_at));
	}
	if (shown < statistic->nframe)
		fputs(" ← …", out);
	return err;
}

static int put_markdown_where(FILE *out, const struct report *report, const struct statistic *statistic)
{
	enum key_type key_type = report->statistics->key_type;
	char *extra;
	int err;

	if (key_type == KEY_TRACEBACK)
		return put_markdown_callers(out, report, statistic);
	err = put_own_code(out, key_type == KEY_FILENAME ? strdup(statistic->frame->filename) :
			   statistic_name(report->names, statistic, key_type));
	if (err || key_type != KEY_LINENO)
		return err;
	extra = frame_extra(report->names, statistic->frame);
	if (extra && !*extra) {
		free(extra);
		return 0;
	}
	putc(' ', out);
	return put_own_code(out, extra);
}

static int put_markdown_row(FILE *out, const struct report *report, const struct statistic *statistic)
{
	int err;

	put_cost_cells(out, report, &statistic->cost, &statistic->diff);
	err = put_markdown_where(out, report, statistic);
	return err ?: fputs(" |\n", out) < 0 ? -errno ?: -EIO : 0;
}

static int put_table(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report), nr = 0;
	int err = 0;

	fprintf(out, statistics->is_diff ? "| growth | size | growth | blocks | where |\n|--:|--:|--:|--:|:--|\n" :
					   "| size | blocks | where |\n|--:|--:|:--|\n");
	for (size_t i = 0; i < statistics->statistic_nr && nr < shown && !err; i++) {
		const struct statistic *row = &statistics->statistic[i];

		if (statistics->is_diff && !row->diff.size && !row->diff.count)
			continue;
		err = put_markdown_row(out, report, row);
		nr++;
	}
	if (err)
		return err;
	put_cost_cells(out, report, &statistics->total, &statistics->total_diff);
	fprintf(out, "**total**");
	if (nr < statistics->statistic_nr)
		fprintf(out, ", of %zu rows", statistics->statistic_nr);
	return fputs(" |\n", out) < 0 ? -errno ?: -EIO : 0;
}

/* ---- the head --------------------------------------------------------------------------------------- */

/* "shopd (4711) on shop-1 at 2026-11-21T05:00:10Z" */
static int put_process(FILE *out, const struct snapshot *snapshot)
{
	const char *wall_time = snapshot__metadata(snapshot, "wall_time");

	fputs(": ", out);
	return put_own_code(out, clean_format("%s (%s) on %s%s%s", snapshot__metadata(snapshot, "comm"),
					      snapshot__metadata(snapshot, "pid") ?: "?",
					      snapshot__metadata(snapshot, "host") ?: "?", wall_time ? " at " : "",
					      wall_time ?: ""));
}

static int put_heading(FILE *out, const struct report *report)
{
	const struct snapshot *last = report->snapshot_nr ? report->snapshot[report->snapshot_nr - 1] : NULL;
	char text[COHORT_TEXT_MAX];
	int err = 0;

	fprintf(out, "**%s**", report->statistics->is_diff ? "What grew and what shrank" : "What holds the memory");
	for (size_t i = 0; i < report->cohort_nr; i++)
		fprintf(out, "%s%s", i ? ", compared with " : ": ", cohort_text(text, &report->cohort[i]));
	if (!report->cohort_nr && last && snapshot__metadata(last, "comm"))
		err = put_process(out, last);
	fputs("\n\n", out);
	return err;
}

static int put_bullet(FILE *out, char *line)
{
	int err;

	if (!line)
		return 0;
	fputs("- ", out);
	err = put_own_code(out, line);
	putc('\n', out);
	return err;
}

/* Puts what makes the numbers less than the truth, as text and JSON do. */
static int put_caveats(FILE *out, const struct report *report)
{
	int err = 0;

	if (report->unjudged)
		err = put_bullet(out, clean_format("cannot be judged: %s", report->unjudged));
	for (size_t i = 0; i < report->warning_nr && !err; i++)
		err = put_bullet(out, clean_format("warning: %s", report->warning[i]));
	for (size_t i = 0; i < report->snapshot_nr && !err && !report->cohort_nr; i++)
		err = put_bullet(out, losses_line(report->snapshot[i]));
	if (!err)
		err = put_bullet(out, loss_list_line(report->loss, report->loss_nr));
	if (!err && report->statistics->total_estimate)
		err = put_bullet(out, strdup("sampled: all numbers are estimates"));
	putc('\n', out);
	return err;
}

int markdown_put_report(FILE *out, const struct report *report)
{
	struct readable_names names = {};
	struct report named = *report;
	int err = 0;

	if (!report->full_names) {
		err = readable_names_add(&names, report->statistics->statistic, report_rows(report),
					 report->statistics->key_type);
		named.names = &names;
	}
	err = err ?: put_heading(out, &named) ?: put_caveats(out, &named) ?: put_table(out, &named);
	readable_names_release(&names);
	return err;
}
