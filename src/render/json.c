// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>

#include "engine.h"
#include "render/domains.h"
#include "render/formats.h"
#include "render/json_parts.h"
#include "snapshot.h"

static int set_cost(json_t *object, const struct cost *cost, const struct cost *diff)
{
	int err = json_set_int(object, "size", cost->size);

	err = err ?: json_set_int(object, "count", cost->count);
	if (diff) {
		err = err ?: json_set_int(object, "size_diff", diff->size);
		err = err ?: json_set_int(object, "count_diff", diff->count);
	}
	return err;
}

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
	err = err ?: json_set(object, "size_interval", interval_json(&estimate->size));
	err = err ?: json_set(object, "count_interval", interval_json(&estimate->count));
	if (!is_diff)
		return err;
	err = err ?: json_set(object, "size_diff_interval", interval_json(&estimate->size_diff));
	return err ?: json_set(object, "count_diff_interval", interval_json(&estimate->count_diff));
}

static json_t *statistic_json(const struct report *report, const struct statistic *statistic)
{
	bool is_diff = report->statistics->is_diff;
	json_t *object = json_object();
	int err = json_set_text(object, "key", statistic->key);

	err = err ?: json_set_text(object, "name", statistic_domain_name(report, statistic));
	err = err ?: json_set(object, "traceback", json_frames(statistic->frame, statistic->nframe));
	err = err ?: set_cost(object, &statistic->cost, is_diff ? &statistic->diff : NULL);
	err = err ?: set_estimate(object, statistic->estimate, is_diff);
	return json_unless(err, object);
}

static json_t *total_json(const struct statistics *statistics)
{
	const struct cost *diff = statistics->is_diff ? &statistics->total_diff : NULL;
	json_t *object = json_object();
	int err = set_cost(object, &statistics->total, diff);

	err = err ?: set_estimate(object, statistics->total_estimate, statistics->is_diff);
	return json_unless(err, object);
}

/* An object of one snapshot, an array of two; each of some() of the snapshot at that place. */
static json_t *of_each(const struct report *report,
		       json_t *(*some)(const struct report *report, size_t at))
{
	json_t *array;
	int err = 0;

	if (report->snapshot_nr == 1)
		return some(report, 0);
	array = json_array();
	for (size_t i = 0; i < report->snapshot_nr && !err; i++)
		if (json_array_append_new(array, some(report, i)))
			err = -ENOMEM;
	return json_unless(err, array);
}

static json_t *sampling_of(const struct report *report, size_t at)
{
	return json_sampling(report->snapshot[at]);
}

static json_t *gap_blocks_of(const struct report *report, size_t at)
{
	json_t *object = json_object();

	return json_unless(set_cost(object, &report->gap_blocks[at], NULL), object);
}

static int set_sampling(json_t *head, const struct report *report)
{
	bool is_sampled = false, has_gap_blocks = false;
	int err = 0;

	for (size_t i = 0; i < report->snapshot_nr; i++) {
		is_sampled |= snapshot__tables(report->snapshot[i])->trace_weight != NULL;
		has_gap_blocks |= report->gap_blocks[i].count > 0;
	}
	if (is_sampled)
		err = json_set(head, "sampling", of_each(report, sampling_of));
	if (has_gap_blocks)
		err = err ?: json_set(head, "gap_blocks", of_each(report, gap_blocks_of));
	return err;
}

static json_t *warnings_json(const struct report *report)
{
	json_t *array = json_array();
	int err = 0;

	for (size_t i = 0; i < report->warning_nr && !err; i++)
		if (json_array_append_new(array, json_clean_string(report->warning[i])))
			err = -ENOMEM;
	return json_unless(err, array);
}

static uint64_t loss_sum(const struct report *report, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < report->snapshot_nr; i++)
		if (__builtin_add_overflow(sum, snapshot__counter(report->snapshot[i], name), &sum))
			return UINT64_MAX;
	return sum;
}

static int set_losses(json_t *losses, const struct report *report, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);
	int err = 0;

	for (uint32_t i = 0; i < tables->counter_nr && !err; i++) {
		const struct snap_counter *loss = &tables->counter[i];
		const char *name = snapshot__string(snapshot, loss->name);

		if (loss->kind == SNAP_LOST && loss->value)
			err = json_set_uint(losses, name, loss_sum(report, name));
	}
	return err;
}

/* What is not zero. For a diff the sums of both snapshots: either's gaps bend a difference. */
static json_t *losses_json(const struct report *report)
{
	json_t *losses = json_object();
	int err = 0;

	for (size_t i = 0; i < report->snapshot_nr && !err; i++)
		err = set_losses(losses, report, report->snapshot[i]);
	return json_unless(err, losses);
}

/* All but the statistics, which may be many. */
static json_t *head_json(const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	const char *schema = statistics->is_diff ? "allocsnap.diff/1" : "allocsnap.stats/1";
	json_t *head = json_object();
	int err = json_set_text(head, "schema", schema);

	err = err ?: json_set_text(head, "key_type", key_type_name(statistics->key_type));
	if (statistics->measure)
		err = err ?: json_set_text(head, "measure", measure_name(statistics->measure));
	err = err ?: json_set(head, "cumulative", json_boolean(statistics->cumulative));
	err = err ?: set_sampling(head, report);
	err = err ?: json_set(head, "total", total_json(statistics));
	err = err ?: json_set(head, "warnings", warnings_json(report));
	err = err ?: json_set(head, "losses", losses_json(report));
	return json_unless(err, head);
}

int json_report(FILE *out, const struct report *report)
{
	const struct statistics *statistics = report->statistics;
	size_t shown = report_rows(report);
	int err;

	putc('{', out);
	err = json_put(out, head_json(report), JSON_EMBED);
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
