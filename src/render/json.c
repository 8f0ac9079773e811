// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "engine.h"
#include "render/cohorts.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "render/rss_text.h"

static json_t *interval_json(const struct interval *interval)
{
	json_t *array = json_array();
	int err = json_array_append_new(array, json_integer(interval->low)) ||
		  json_array_append_new(array, json_integer(interval->high)) ? -ENOMEM : 0;

	return json_unless(err, array);
}

static int set_estimate(json_t *object, const struct estimate *estimate, bool is_diff)
{
	int err;

	if (!estimate)
		return 0;
	err = json_set_uint(object, "samples", estimate->samples);
	if (is_diff)
		err = err ?: json_set_uint(object, "old_samples", estimate->old_samples);
	if (!estimate->has_intervals)
		return err;
	err = err ?: json_set(object, "size_interval", interval_json(&estimate->size));
	if (estimate->has_count)
		err = err ?: json_set(object, "count_interval", interval_json(&estimate->count));
	if (!is_diff)
		return err;
	err = err ?: json_set(object, "size_diff_interval", interval_json(&estimate->size_diff));
	if (estimate->has_count_diff)
		err = err ?: json_set(object, "count_diff_interval", interval_json(&estimate->count_diff));
	return err;
}

static json_t *statistic_json(const struct report *report, const struct statistic *statistic)
{
	bool is_diff = report->statistics->is_diff;
	json_t *object = json_object();
	int err = json_set_group(object, report, statistic);

	err = err ?: json_set_sizes(object, &statistic->cost, is_diff ? &statistic->diff : NULL);
	err = err ?: set_estimate(object, statistic->estimate, is_diff);
	err = err ?: json_set_process_means(object, report, statistic);
	return json_unless(err, object);
}

static json_t *total_json(const struct statistics *statistics)
{
	const struct cost *diff = statistics->is_diff ? &statistics->total_diff : NULL;
	json_t *object = json_object();
	int err = json_set_sizes(object, &statistics->total, diff);

	err = err ?: set_estimate(object, statistics->total_estimate, statistics->is_diff);
	return json_unless(err, object);
}

/* "allocsnap.stats/2", "allocsnap.fleet.diff/2" */
static const char *schema_of(const struct report *report)
{
	if (report->cohort_nr)
		return report->statistics->is_diff ? "allocsnap.fleet.diff/2" : "allocsnap.fleet.stats/2";
	return report->statistics->is_diff ? "allocsnap.diff/2" : "allocsnap.stats/2";
}

/* Sets "rss" of a diff of one process, if it is known. */
static int set_rss_change(json_t *head, const struct report *report)
{
	json_t *object;
	struct rss_change rss;
	int err;

	if (!report->statistics->is_diff || report->cohort_nr || report->snapshot_nr < 2)
		return 0;
	rss = rss_change_between(report->snapshot[0], report->snapshot[1]);
	if (!rss.is_known)
		return 0;
	object = json_object();
	err = json_set_uint(object, "old", rss.before) ?: json_set_uint(object, "new", rss.after);
	err = err ?: json_set_int(object, "diff", (int64_t)(rss.after - rss.before));
	err = err ?: json_set(object, "traced_diff", json_real(rss.traced));
	return json_set(head, "rss", json_unless(err, object));
}

/* Everything except the statistics: they may be many, and are written one by one. */
static json_t *report_head_json(const struct report *report)
{
	json_t *head = json_object();
	int err = json_set_origin(head, report, schema_of(report));

	err = err ?: json_set(head, "total", total_json(report->statistics));
	err = err ?: set_rss_change(head, report);
	err = err ?: json_set_caveats(head, report);
	return json_unless(err, head);
}

int json_put_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report);
	int err;

	putc('{', out);
	err = json_put(out, report_head_json(report), JSON_EMBED);
	fputs(",\"statistics\":[", out);
	for (size_t i = 0; i < shown && !err; i++) {
		if (i)
			putc(',', out);
		err = json_put(out, statistic_json(report, &statistics->statistic[i]), 0);
	}
	if (!err && fputs("]}\n", out) < 0)
		err = -errno ?: -EIO;
	return err;
}
