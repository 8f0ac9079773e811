// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/json_parts.h"

#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "engine/estimate.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/cohorts.h"
#include "render/statistic_text.h"
#include "snapshot.h"

int json_set(json_t *object, const char *key, json_t *value)
{
	char *clean = clean_copy(key);
	int err = -ENOMEM;

	if (clean && value)
		err = json_object_set_new(object, clean, value) ? -ENOMEM : 0;
	else
		json_decref(value);
	free(clean);
	return err;
}

json_t *json_clean_string(const char *text)
{
	char *clean = clean_copy(text);
	json_t *value = clean ? json_string(clean) : NULL;

	free(clean);
	return value;
}

json_t *json_unless(int err, json_t *value)
{
	if (!err)
		return value;
	json_decref(value);
	return NULL;
}

int json_set_text(json_t *object, const char *key, const char *text)
{
	return text ? json_set(object, key, json_clean_string(text)) : 0;
}

int json_set_int(json_t *object, const char *key, int64_t value)
{
	return json_set(object, key, json_integer(value));
}

int json_set_uint(json_t *object, const char *key, uint64_t value)
{
	return json_set(object, key, value > INT64_MAX ? json_real(value) : json_integer(value));
}

int json_put(FILE *out, json_t *value, size_t flags)
{
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(16) | flags) : NULL;
	int err = 0;

	json_decref(value);
	if (!text)
		return -ENOMEM;
	if (fputs(text, out) < 0)
		err = -errno ?: -EIO;
	free(text);
	return err;
}

json_t *json_sampling(const struct snapshot *snapshot)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);
	json_t *object = json_object();
	int err = 0;

	if (!is_sampled || bytes)
		err = json_set_uint(object, "bytes", is_sampled ? bytes : 0);
	if (is_sampled)
		err = err ?: json_set_text(object, "sampler", snapshot_sampler_kind(snapshot));
	if (is_sampled && !snapshot_samples_pools(snapshot))
		err = err ?: json_set(object, "confidence", json_real(0.95));
	return json_unless(err, object);
}

static json_t *frame_json(const struct frame_view *frame)
{
	char *function = frame->function ? frame_function(NULL, frame) : NULL;
	json_t *object = json_object();
	int err = frame->function && !function ? -ENOMEM : json_set_text(object, "filename", frame->filename);

	err = err ?: json_set_uint(object, "lineno", frame->lineno);
	err = err ?: json_set_text(object, "function", function);
	err = err ?: json_set_text(object, "object", frame->object);
	err = err ?: json_set_text(object, "build_id", frame->build_id);
	if (frame->offset)
		err = err ?: json_set_uint(object, frame->object ? "offset" : "address", frame->offset);
	if (frame->is_inlined)
		err = err ?: json_set(object, "inlined", json_true());
	free(function);
	return json_unless(err, object);
}

json_t *json_frames(const struct frame_view *frame, uint32_t nframe)
{
	json_t *array = json_array();
	int err = 0;

	for (uint32_t i = nframe; i && !err; i--)
		if (json_array_append_new(array, frame_json(&frame[i - 1])))
			err = -ENOMEM;
	return json_unless(err, array);
}

int json_set_sizes(json_t *object, const struct cost *cost, const struct cost *diff)
{
	int err = json_set_int(object, "size", cost->size);

	err = err ?: json_set_int(object, "count", cost->count);
	if (diff) {
		err = err ?: json_set_int(object, "size_diff", diff->size);
		err = err ?: json_set_int(object, "count_diff", diff->count);
	}
	return err;
}

int json_set_group(json_t *object, const struct report *report, const struct statistic *statistic)
{
	int err = json_set_text(object, "key", statistic->key);

	err = err ?: json_set_text(object, "name", statistic_domain_name(report, statistic));
	return err ?: json_set(object, "traceback", json_frames(statistic->frame, statistic->nframe));
}

/* ---- what is shown -------------------------------------------------------------------------------- */

/* Returns an object for one side, or an array for two. some() makes the object of side number `at`. */
static json_t *of_each(const struct report *report,
		       json_t *(*some)(const struct report *report, size_t at))
{
	json_t *array;
	int err = 0;

	if (report_sides(report) == 1)
		return some(report, 0);
	array = json_array();
	for (size_t i = 0; i < report_sides(report) && !err; i++)
		if (json_array_append_new(array, some(report, i)))
			err = -ENOMEM;
	return json_unless(err, array);
}

static json_t *sampling_of(const struct report *report, size_t at)
{
	return report->cohort_nr ? cohort_sampling_json(&report->cohort[at]) :
				   json_sampling(report->snapshot[at]);
}

static json_t *gap_blocks_of(const struct report *report, size_t at)
{
	json_t *object = json_object();

	return json_unless(json_set_sizes(object, &report->gap_blocks[at], NULL), object);
}

static int set_sampling(json_t *head, const struct report *report)
{
	bool is_sampled = false, has_gap_blocks = false;
	int err = 0;

	for (size_t i = 0; i < report_sides(report); i++) {
		is_sampled |= report_is_side_sampled(report, i);
		has_gap_blocks |= report->gap_blocks[i].count > 0;
	}
	if (is_sampled)
		err = json_set(head, "sampling", of_each(report, sampling_of));
	if (has_gap_blocks)
		err = err ?: json_set(head, "gap_blocks", of_each(report, gap_blocks_of));
	return err;
}

int json_set_origin(json_t *head, const struct report *report, const char *schema)
{
	const struct statistics *statistics = report->statistics;
	int err = json_set_text(head, "schema", schema);

	err = err ?: json_set_text(head, "key_type", key_type_name(statistics->key_type));
	if (statistics->measure)
		err = err ?: json_set_text(head, "measure", measure_name(statistics->measure));
	err = err ?: json_set(head, "cumulative", json_boolean(statistics->cumulative));
	err = err ?: json_set_cohorts(head, report);
	return err ?: set_sampling(head, report);
}

/* ---- how far to trust it ---------------------------------------------------------------------- */

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

/* The losses that are not zero. A diff has the sums of both snapshots: gaps in either one distort the difference. */
static json_t *losses_json(const struct report *report)
{
	json_t *losses = json_object();
	int err = 0;

	for (size_t i = 0; i < report->loss_nr && !err; i++)
		err = json_set_uint(losses, report->loss[i].name, report->loss[i].value);
	for (size_t i = 0; i < report->snapshot_nr && !err; i++)
		err = set_losses(losses, report, report->snapshot[i]);
	return json_unless(err, losses);
}

int json_set_caveats(json_t *head, const struct report *report)
{
	int err = report->unjudged ? json_set_text(head, "cannot_be_judged", report->unjudged) : 0;

	err = err ?: json_set(head, "warnings", warnings_json(report));
	return err ?: json_set(head, "losses", losses_json(report));
}
