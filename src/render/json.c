// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine.h"
#include "render/cohorts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/rss_text.h"

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
