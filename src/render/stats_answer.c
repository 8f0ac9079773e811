// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Statistics and comparisons, as text and as JSON. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/terminal.h"
#include "base/units.h"
#include "engine.h"
#include "engine/estimate.h"
#include "render/caveats.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/page_facts.h"
#include "render/readable_name.h"
#include "render/source_tree.h"
#include "render/statistic_text.h"
#include "snapshot.h"

/* ---- rows ----------------------------------------------------------------------------------- */

/* The frame's source line, if there is one. */
static void put_source(struct emitter *out, struct source_tree *tree, const struct frame_view *frame)
{
	char *line = source_tree__line(tree, frame->filename, frame->lineno);

	if (line)
		emit_line(out, "        %s", line);
	free(line);
}

static void put_extra(struct emitter *out, const struct report *report, struct source_tree *tree,
		      const struct frame_view *frame)
{
	char *extra = frame_extra(report->names, frame);

	if (extra && !*extra)
		free(extra);
	else
		emit_err(out, put_row(out->file, report->width, "    ", extra, 0, ROW_FUNCTION));
	put_source(out, tree, frame);
}

void put_group_stack(struct emitter *out, const struct report *report, struct source_tree *tree,
		       const struct statistic *statistic)
{
	uint32_t nframe = statistic->nframe;

	for (uint32_t i = 0; i < nframe && emits_text(out); i++) {
		const struct frame_view *frame = &statistic->frame[report->oldest_first ? i : nframe - 1 - i];
		size_t tail_at;
		char *text = frame_text(report->names, frame, &tail_at);

		emit_err(out, put_row(out->file, report->width, "    ", text, tail_at, ROW_FUNCTION));
		put_source(out, tree, frame);
	}
	emit_line(out, "%s", "");
}

char *group_name(const struct report *report, const struct statistic *statistic)
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

static void put_statistic(struct emitter *out, const struct report *report, struct source_tree *tree,
			  const struct statistic *statistic)
{
	enum key_type key_type = report->statistics->key_type;

	emit_err(out, put_costs(out->file, report, statistic));
	if (key_type == KEY_TRACEBACK)
		put_group_stack(out, report, tree, statistic);
	else if (key_type == KEY_LINENO && !out->err)
		put_extra(out, report, tree, &statistic->frame[0]);
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
static void put_rows_left_out(struct emitter *out, const struct statistics *statistics,
			      const struct statistic *const row[], size_t nr, const char *what)
{
	char size[UNIT_TEXT_MAX], costs[COST_TEXT_MAX];
	struct cost cost = {}, diff = {};

	if (!nr)
		return;
	if (statistics->cumulative) {
		emit_line(out, "… and %zu %s", nr, what);
		return;
	}
	for (size_t i = 0; i < nr; i++) {
		add_capped_cost(&cost, &row[i]->cost);
		add_capped_cost(&diff, &row[i]->diff);
	}
	if (statistics->is_diff && (diff.size || diff.count))
		emit_line(out, "… and %zu %s (%s)", nr, what, cost_text(costs, &cost, &diff, NULL));
	else
		emit_line(out, "… and %zu %s (%s in %jd block%s)", nr, what, format_size(size, cost.size, false),
			  (intmax_t)cost.count, cost.count == 1 ? "" : "s");
}

#define NAMELESS_ROWS 3 /* that the hint is about: below these a name matters little */

/* Whether the row is a place of a file, without a function and a line of source. */
static bool is_nameless_row(const struct statistic *row)
{
	const struct frame_view *frame = row->head ?: row->frame;

	return row->nframe && frame->object && !frame->function && !frame->lineno;
}

/* If a recording has no name at all, `stats` says how to add them. */
static void put_names_hint(struct emitter *out, const struct report *report, const struct statistic *const row[],
			   size_t nr)
{
	bool has_nameless = false;

	if (report->cohort_nr || !report->snapshot_nr || (report->engine && report->engine->tracemalloc))
		return;
	for (size_t i = 0; i < nr && i < NAMELESS_ROWS; i++)
		has_nameless |= is_nameless_row(row[i]);
	if (has_nameless && snapshot_has_names(report->snapshot[report->snapshot_nr - 1]))
		emit_line(out, "hint: %s", NAMELESS_TEXT);
}

static void put_all_rows(struct emitter *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t nr = statistics->statistic_nr, changed, shown;
	const struct statistic **row = calloc(nr + 1, sizeof(*row));
	struct source_tree *tree;

	if (!row) {
		emit_err(out, -ENOMEM);
		return;
	}
	changed = count_changed_rows(report, row);
	shown = report->top && report->top < changed ? report->top : changed;
	tree = source_tree__open(report->source_dir);
	for (size_t i = 0; i < shown && emits_text(out); i++)
		put_statistic(out, report, tree, row[i]);
	source_tree__close(tree);
	put_rows_left_out(out, statistics, row + shown, changed - shown, "more");
	put_rows_left_out(out, statistics, row + changed, nr - changed, "unchanged");
	put_names_hint(out, report, row, shown);
	free(row);
}

/* ---- head and total -------------------------------------------------------------------------- */

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
static void put_report_sampling(struct emitter *out, const struct report *report)
{
	const struct estimate *estimate = report->statistics->total_estimate;
	bool is_diff = report->statistics->is_diff;
	char now[SAMPLES_TEXT_MAX], before[SAMPLES_TEXT_MAX];

	if (!estimate)
		return;
	emit_line(out, "estimated from %s%s%s%s; %s%s%s",
		  samples_text(now, report, report_sides(report) - 1, estimate->samples), is_diff ? " (before: " : "",
		  is_diff ? samples_text(before, report, 0, estimate->old_samples) : "", is_diff ? ")" : "",
		  estimate->has_intervals ? "± is how far off it may be, with 95 % confidence" :
					    "its error is not known",
		  estimate->has_intervals ? "" : why_untold(report),
		  estimate->has_intervals && has_count_untold(report->statistics) ?
			"; ±?: too few samples" : "");
}

/* A total of mappings and of the heap that lies in them is more than there is. */
static void put_overlap(struct emitter *out, const struct report *report)
{
	bool overlaps = false;

	for (size_t i = 0; i < report->snapshot_nr && !report->cohort_nr && !report->statistics->measure; i++)
		overlaps |= domains_overlap(report->snapshot[i]);
	if (overlaps && !report->has_domain_filter)
		emit_line(out, "domains overlap: memory in a block of one domain may count in another, too; "
			  "--group-by domain shows each");
}

static void put_meaning_of_pages(struct emitter *out, const struct report *report)
{
	size_t i = 0;

	while (i < report->snapshot_nr && !snapshot_pages_why(report->snapshot[i]))
		i++;
	if (i < report->snapshot_nr)
		emit_pages_why(out, report->snapshot[i], "");
	if (array_any(report->snapshot_nr, i, snapshot_has_pages(report->snapshot[i])))
		emit_line(out, "%s", PAGES_MEANING);
}

static void put_text_report(struct emitter *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	char costs[COST_TEXT_MAX], means[PROCESS_MEAN_TEXT_MAX];

	if (report->unjudged)
		emit_toned_line(out, TONE_ALARM, "cannot be judged: %s", report->unjudged);
	put_cohorts(out, report);
	put_report_sampling(out, report);
	put_all_rows(out, report);
	cost_text(costs, &statistics->total, statistics->is_diff ? &statistics->total_diff : NULL,
		  statistics->total_estimate);
	process_mean_text(means, report, &statistics->total, &statistics->total_diff);
	emit_toned_line(out, TONE_HEAD, "total: %s%s", costs, means);
	put_overlap(out, report);
	put_meaning_of_pages(out, report);
}

int text_put_report(FILE *file, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	struct emitter out = emit_to(file, false);
	struct readable_names names = {};
	struct report named = *report;

	if (!report->full_names) {
		named.width = terminal_width(fileno(file));
		named.names = &names;
		emit_err(&out, readable_names_add(&names, statistics->statistic, report_rows(report),
						  statistics->key_type));
	}
	put_text_report(&out, &named);
	readable_names_release(&names);
	return emit_finish(&out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void emit_interval(struct emitter *out, const char *key, const struct interval *interval)
{
	emit_list(out, key);
	emit_int(out, NULL, interval->low);
	emit_int(out, NULL, interval->high);
	emit_end(out);
}

static void emit_estimate(struct emitter *out, const struct estimate *estimate, bool is_diff)
{
	if (!estimate)
		return;
	emit_uint(out, "samples", estimate->samples);
	if (is_diff)
		emit_uint(out, "old_samples", estimate->old_samples);
	if (!estimate->has_intervals)
		return;
	emit_interval(out, "size_interval", &estimate->size);
	if (estimate->has_count)
		emit_interval(out, "count_interval", &estimate->count);
	if (!is_diff)
		return;
	emit_interval(out, "size_diff_interval", &estimate->size_diff);
	if (estimate->has_count_diff)
		emit_interval(out, "count_diff_interval", &estimate->count_diff);
}

static void emit_statistic(struct emitter *out, const struct report *report, const struct statistic *statistic)
{
	bool is_diff = report->statistics->is_diff;

	emit_object(out, NULL);
	emit_group(out, report, statistic);
	emit_sizes(out, &statistic->cost, is_diff ? &statistic->diff : NULL);
	emit_estimate(out, statistic->estimate, is_diff);
	emit_process_means(out, report, statistic);
	emit_end(out);
}

static void emit_total(struct emitter *out, const struct statistics *statistics)
{
	emit_object(out, "total");
	emit_sizes(out, &statistics->total, statistics->is_diff ? &statistics->total_diff : NULL);
	emit_estimate(out, statistics->total_estimate, statistics->is_diff);
	emit_end(out);
}

/* "allocsnap.stats/2", "allocsnap.fleet.diff/2" */
static const char *schema_of(const struct report *report)
{
	if (report->cohort_nr)
		return report->statistics->is_diff ? "allocsnap.fleet.diff/2" : "allocsnap.fleet.stats/2";
	return report->statistics->is_diff ? "allocsnap.diff/2" : "allocsnap.stats/2";
}

/* "rss" of a diff of one process, if it is known. */
static void emit_rss_change(struct emitter *out, const struct report *report)
{
	struct rss_change rss;

	if (!report->statistics->is_diff || report->cohort_nr || report->snapshot_nr < 2)
		return;
	rss = rss_change_between(report->snapshot[0], report->snapshot[1]);
	if (!rss.is_known)
		return;
	emit_object(out, "rss");
	emit_uint(out, "old", rss.before);
	emit_uint(out, "new", rss.after);
	emit_int(out, "diff", (int64_t)(rss.after - rss.before));
	emit_real(out, "traced_diff", rss.traced);
	emit_end(out);
}

int json_put_report(FILE *file, const struct report *report)
{
	struct emitter out = emit_to(file, true);
	size_t shown = report_rows(report);

	emit_origin(&out, report, schema_of(report));
	emit_total(&out, report->statistics);
	emit_rss_change(&out, report);
	emit_caveats(&out, report);
	emit_rows(&out, "statistics");
	for (size_t i = 0; i < shown && !out.err; i++)
		emit_statistic(&out, report, &report->statistics->statistic[i]);
	emit_end(&out);
	return emit_finish(&out);
}
