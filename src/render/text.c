// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/units.h"
#include "engine.h"
#include "render/clean.h"
#include "render/cohorts.h"
#include "render/statistic_text.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/source_tree.h"
#include "snapshot.h"

/* Writes "INDENT TEXT" and frees the text. */
static int put_text(FILE *out, const char *indent, char *text)
{
	int err = text ? put_line(out, "%s%s", indent, text) : -ENOMEM;

	free(text);
	return err;
}

/* Writes the frame's source line, if there is one. */
static int put_source(FILE *out, struct source_tree *tree, const struct frame_view *frame)
{
	char *line = source_tree__line(tree, frame->filename, frame->lineno);

	return line ? put_text(out, "        ", line) : 0;
}

static int put_extra(FILE *out, struct source_tree *tree, const struct frame_view *frame)
{
	char *extra = frame_extra(frame);
	int err = 0;

	if (extra && !*extra)
		free(extra);
	else
		err = put_text(out, "    ", extra);
	return err ?: put_source(out, tree, frame);
}

int text_put_stack(FILE *out, struct source_tree *tree, const struct statistic *statistic, bool oldest_first)
{
	uint32_t nframe = statistic->nframe;
	int err = 0;

	for (uint32_t i = 0; i < nframe && !err; i++) {
		uint32_t at = oldest_first ? i : nframe - 1 - i;

		err = put_text(out, "    ", frame_text(&statistic->frame[at]));
		if (!err)
			err = put_source(out, tree, &statistic->frame[at]);
	}
	return err ?: put_line(out, "%s", "");
}

/* Formats a copy whose key has the domain's name. */
static char *domain_statistic_text(const struct report *report, const struct statistic *statistic)
{
	struct statistic named = *statistic;
	const char *name = statistic_domain_name(report, statistic);
	char *key, *text;

	if (!name)
		return statistic_text(statistic, report->statistics->is_diff);
	if (asprintf(&key, "%s (%s)", statistic->key, name) < 0)
		return NULL;
	named.key = key;
	text = statistic_text(&named, report->statistics->is_diff);
	free(key);
	return text;
}

static int put_costs(FILE *out, const struct report *report, const struct statistic *statistic)
{
	char *text = domain_statistic_text(report, statistic), means[PROCESS_MEAN_TEXT_MAX];
	int err = -ENOMEM;

	process_mean_text(means, report, &statistic->cost, &statistic->diff);
	if (text)
		err = put_line(out, "%s%s", text, means);
	free(text);
	return err;
}

static int put_statistic(FILE *out, const struct report *report, struct source_tree *tree,
			 const struct statistic *statistic)
{
	const struct statistics *statistics = report->statistics;
	int err = put_costs(out, report, statistic);

	if (err)
		return err;
	if (statistics->key_type == KEY_TRACEBACK)
		return text_put_stack(out, tree, statistic, report->oldest_first);
	if (statistics->key_type == KEY_LINENO)
		return put_extra(out, tree, &statistic->frame[0]);
	return 0;
}

/* Snapshots of Python programs are compared to the letter as tracemalloc does it. */
static bool is_imported(const struct report *report)
{
	for (size_t i = 0; i < report->snapshot_nr; i++)
		if (snapshot__metadata(report->snapshot[i], "source"))
			return true;
	return false;
}

/* Moves the rows of a diff that did not change to the end. Returns the number of the other rows. */
static size_t count_changed_rows(const struct report *report, const struct statistic *ret_row[])
{
	const struct statistics *statistics = report->statistics;
	bool has_all = !statistics->is_diff || is_imported(report);
	size_t changed = 0, same = statistics->statistic_nr;

	for (size_t i = 0; i < statistics->statistic_nr; i++)
		if (has_all || statistics->statistic[i].diff.size || statistics->statistic[i].diff.count)
			ret_row[changed++] = &statistics->statistic[i];
	for (size_t i = statistics->statistic_nr; i-- > 0 && !has_all;)
		if (!statistics->statistic[i].diff.size && !statistics->statistic[i].diff.count)
			ret_row[--same] = &statistics->statistic[i];
	return changed;
}

static int put_rows(FILE *out, const struct report *report, const struct statistic *const row[], size_t nr)
{
	struct source_tree *tree = source_tree__open(report->source_dir);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++)
		err = put_statistic(out, report, tree, row[i]);
	source_tree__close(tree);
	return err;
}

/*
 * Adds parts of a total that the engine has checked. Estimates are rounded one by one, so that their sum may still
 * overflow.
 */
static void add_capped_cost(struct cost *to, const struct cost *what)
{
	if (__builtin_add_overflow(to->size, what->size, &to->size))
		to->size = INT64_MAX;
	if (__builtin_add_overflow(to->count, what->count, &to->count))
		to->count = INT64_MAX;
}

/*
 * Gives no bytes for cumulative statistics: they count a block once for each frame, so that the sum is no size of
 * anything.
 */
static int put_rows_left_out(FILE *out, const struct statistics *statistics, const struct statistic *const row[],
			     size_t nr, const char *what)
{
	char size[UNIT_TEXT_MAX], costs[COST_TEXT_MAX];
	struct cost cost = {}, diff = {};

	if (!nr)
		return 0;
	if (statistics->cumulative)
		return put_line(out, "… and %zu %s", nr, what);
	for (size_t i = 0; i < nr; i++) {
		add_capped_cost(&cost, &row[i]->cost);
		add_capped_cost(&diff, &row[i]->diff);
	}
	if (statistics->is_diff && (diff.size || diff.count))
		return put_line(out, "… and %zu %s (%s)", nr, what, cost_text(costs, &cost, &diff, NULL));
	return put_line(out, "… and %zu %s (%s in %jd block%s)", nr, what,
			format_size(size, cost.size, false), (intmax_t)cost.count,
			cost.count == 1 ? "" : "s");
}

static int put_all_rows(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t nr = statistics->statistic_nr, changed, shown;
	const struct statistic **row = calloc(nr + 1, sizeof(*row));
	int err;

	if (!row)
		return -ENOMEM;
	changed = count_changed_rows(report, row);
	shown = report->top && report->top < changed ? report->top : changed;
	err = put_rows(out, report, row, shown);
	err = err ?: put_rows_left_out(out, statistics, row + shown, changed - shown, "more");
	err = err ?: put_rows_left_out(out, statistics, row + changed, nr - changed, "unchanged");
	free(row);
	return err;
}

/* Writes "1200 samples, one in 512 KiB" or "every block" for a side of the report, from 0. */
static void put_samples(FILE *out, const struct report *report, size_t side, uint64_t samples)
{
	char rate[RATE_TEXT_MAX] = "";

	if (!report_is_side_sampled(report, side)) {
		fputs("every block", out);
		return;
	}
	if (!report->cohort_nr)
		rate_text(rate, report->snapshot[side]);
	fprintf(out, "%" PRIu64 " sample%s%s%s", samples, samples == 1 ? "" : "s", *rate ? ", " : "",
		rate);
}

/* Writes nothing if all blocks were recorded: such a report is the same as tracemalloc's. */
static int put_report_sampling(FILE *out, const struct report *report)
{
	const struct estimate *estimate = report->statistics->total_estimate;

	if (!estimate)
		return 0;
	fputs("estimated from ", out);
	put_samples(out, report, report_sides(report) - 1, estimate->samples);
	if (report->statistics->is_diff) {
		fputs(" (before: ", out);
		put_samples(out, report, 0, estimate->old_samples);
		fputs(")", out);
	}
	return put_line(out, "; ± is how far off it may be, with 95 %% confidence");
}

int text_put_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	char costs[COST_TEXT_MAX], means[PROCESS_MEAN_TEXT_MAX];
	int err = put_cohorts(out, report) ?: put_report_sampling(out, report) ?: put_all_rows(out, report);

	if (err)
		return err;
	cost_text(costs, &statistics->total, statistics->is_diff ? &statistics->total_diff : NULL,
		  statistics->total_estimate);
	process_mean_text(means, report, &statistics->total, &statistics->total_diff);
	return put_line(out, "total: %s%s", costs, means);
}
