// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/terminal.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "render/clean.h"
#include "render/cohorts.h"
#include "render/statistic_text.h"
#include "render/facts.h"
#include "render/fit_row.h"
#include "render/formats.h"
#include "render/readable_name.h"
#include "render/rss_text.h"
#include "render/source_tree.h"
#include "snapshot.h"

/* Writes the frame's source line, if there is one. */
static int put_source(FILE *out, struct source_tree *tree, const struct frame_view *frame)
{
	char *line = source_tree__line(tree, frame->filename, frame->lineno);
	int err = line ? put_line(out, "        %s", line) : 0;

	free(line);
	return err;
}

static int put_extra(FILE *out, const struct report *report, struct source_tree *tree, const struct frame_view *frame)
{
	char *extra = frame_extra(report->names, frame);
	int err = 0;

	if (extra && !*extra)
		free(extra);
	else
		err = put_row(out, report->width, "    ", extra, 0, ROW_FUNCTION);
	return err ?: put_source(out, tree, frame);
}

int text_put_stack(FILE *out, const struct report *report, struct source_tree *tree,
		   const struct statistic *statistic)
{
	uint32_t nframe = statistic->nframe;
	int err = 0;

	for (uint32_t i = 0; i < nframe && !err; i++) {
		uint32_t at = report->oldest_first ? i : nframe - 1 - i;
		size_t tail_at;
		char *text = frame_text(report->names, &statistic->frame[at], &tail_at);

		err = put_row(out, report->width, "    ", text, tail_at, ROW_FUNCTION);
		if (!err)
			err = put_source(out, tree, &statistic->frame[at]);
	}
	return err ?: put_line(out, "%s", "");
}

/* The name of a group; of a domain with the domain's own name. */
static char *group_name(const struct report *report, const struct statistic *statistic)
{
	const char *domain = statistic_domain_name(report, statistic);
	char *name;

	if (!domain)
		return statistic_name(report->names, statistic, report->statistics->key_type);
	return asprintf(&name, "%s (%s)", statistic->key, domain) < 0 ? NULL : name;
}

static enum tone change_tone(const struct statistics *statistics, const struct cost *diff)
{
	if (!statistics->is_diff || !diff->size)
		return TONE_PLAIN;
	return diff->size > 0 ? TONE_GROWTH : TONE_SHRINK;
}

static int put_costs(FILE *out, const struct report *report, const struct statistic *statistic)
{
	bool is_function = report->statistics->key_type == KEY_FUNCTION || !(statistic->key || statistic_has_line(statistic));
	char *name = group_name(report, statistic), *costs = statistic_costs(statistic, report->statistics->is_diff);
	char means[PROCESS_MEAN_TEXT_MAX], *text = NULL;
	size_t tail_at = name ? strlen(name) : 0;

	process_mean_text(means, report, &statistic->cost, &statistic->diff);
	if (name && costs && asprintf(&text, "%s: %s%s", name, costs, means) < 0)
		text = NULL;
	free(name);
	free(costs);
	return put_toned_row(out, report->width, text, tail_at, is_function ? ROW_FUNCTION : ROW_PATH,
			     change_tone(report->statistics, &statistic->diff));
}

static int put_statistic(FILE *out, const struct report *report, struct source_tree *tree,
			 const struct statistic *statistic)
{
	const struct statistics *statistics = report->statistics;
	int err = put_costs(out, report, statistic);

	if (err)
		return err;
	if (statistics->key_type == KEY_TRACEBACK)
		return text_put_stack(out, report, tree, statistic);
	if (statistics->key_type == KEY_LINENO)
		return put_extra(out, report, tree, &statistic->frame[0]);
	return 0;
}

/* Snapshots of Python programs are compared to the letter as tracemalloc does it. */
static bool is_imported(const struct report *report)
{
	for (size_t i = 0; i < report->snapshot_nr; i++) {
		const char *source = snapshot__metadata(report->snapshot[i], "source");

		if (source && !strncmp(source, "tracemalloc", strlen("tracemalloc")))
			return true;
	}
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

#define SAMPLES_TEXT_MAX (RATE_TEXT_MAX + 32)

/* "1200 samples, one in 512 KiB" or "every block" for a side of the report, from 0. */
static const char *samples_text(char text[SAMPLES_TEXT_MAX], const struct report *report, size_t side, uint64_t samples)
{
	char rate[RATE_TEXT_MAX] = "";

	if (!report_is_side_sampled(report, side))
		return "every block";
	if (!report->cohort_nr)
		rate_text(rate, report->snapshot[side]);
	snprintf(text, SAMPLES_TEXT_MAX, "%" PRIu64 " sample%s%s%s", samples, samples == 1 ? "" : "s", *rate ? ", " : "",
		 rate);
	return text;
}

static bool has_count_untold(const struct statistics *statistics)
{
	for (size_t i = 0; i <= statistics->statistic_nr; i++) {
		const struct estimate *estimate = i < statistics->statistic_nr ? statistics->statistic[i].estimate :
										 statistics->total_estimate;

		if (!estimate->has_count || (statistics->is_diff && !estimate->has_count_diff))
			return true;
	}
	return false;
}

static const char *why_untold(const struct report *report)
{
	for (size_t i = 0; i < report_sides(report) && !report->cohort_nr; i++)
		if (snapshot_samples_pools(report->snapshot[i]))
			return ": a pool counts for the line that took it";
	return report->cohort_nr ? ", because recordings have gaps, or have pools as samples" : ", because the recording has gaps";
}

/* Writes nothing if all blocks were recorded: such a report is the same as tracemalloc's. */
static int put_report_sampling(FILE *out, const struct report *report)
{
	const struct estimate *estimate = report->statistics->total_estimate;
	bool is_diff = report->statistics->is_diff;
	char now[SAMPLES_TEXT_MAX], before[SAMPLES_TEXT_MAX];

	if (!estimate)
		return 0;
	return put_line(out, "estimated from %s%s%s%s; %s%s%s",
			samples_text(now, report, report_sides(report) - 1, estimate->samples),
			is_diff ? " (before: " : "",
			is_diff ? samples_text(before, report, 0, estimate->old_samples) : "", is_diff ? ")" : "",
			estimate->has_intervals ? "± is how far off it may be, with 95 % confidence" :
						  "how far off it is cannot be told",
			estimate->has_intervals ? "" : why_untold(report),
			estimate->has_intervals && has_count_untold(report->statistics) ?
				"; ±?: too few samples to tell" : "");
}

/* A total of mappings and of the heap that lies in them is more than there is. */
static int put_overlap(FILE *out, const struct report *report)
{
	bool overlaps = false;

	for (size_t i = 0; i < report->snapshot_nr && !report->cohort_nr && !report->statistics->measure; i++)
		overlaps |= domains_overlap(report->snapshot[i]);
	if (!overlaps || report->has_domain_filter)
		return 0;
	return put_line(out, "domains overlap: memory in a block of one domain may count in another, too; "
			     "--group-by domain shows each");
}

static int put_text_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	char costs[COST_TEXT_MAX], means[PROCESS_MEAN_TEXT_MAX];
	int err = report->unjudged ? put_toned_line(out, TONE_ALARM, "cannot be judged: %s", report->unjudged) : 0;

	err = err ?: put_cohorts(out, report) ?: put_report_sampling(out, report) ?: put_all_rows(out, report);
	if (err)
		return err;
	cost_text(costs, &statistics->total, statistics->is_diff ? &statistics->total_diff : NULL,
		  statistics->total_estimate);
	process_mean_text(means, report, &statistics->total, &statistics->total_diff);
	return put_toned_line(out, TONE_HEAD, "total: %s%s", costs, means) ?: put_overlap(out, report);
}

int text_put_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	struct readable_names names = {};
	struct report named = *report;
	int err = 0;

	if (!report->full_names) {
		named.width = terminal_width(fileno(out));
		named.names = &names;
		err = readable_names_add(&names, statistics->statistic, report_rows(report), statistics->key_type);
	}
	err = err ?: put_text_report(out, &named);
	readable_names_release(&names);
	return err;
}
