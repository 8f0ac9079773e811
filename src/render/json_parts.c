// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/json_parts.h"

#include <errno.h>
#include <stdlib.h>

#include "engine.h"
#include "engine/estimate.h"
#include "render/clean.h"
#include "render/cohorts.h"
#include "render/emitter.h"
#include "render/facts.h"
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

/* ---- members ------------------------------------------------------------------------------------- */

void emit_sampling(struct emitter *out, const char *key, const struct snapshot *snapshot)
{
	bool is_sampled = snapshot__tables(snapshot)->trace_weight;
	uint64_t bytes = snapshot__metadata_u64(snapshot, "sample_bytes", 0);

	emit_object(out, key);
	if (!is_sampled || bytes)
		emit_uint(out, "bytes", is_sampled ? bytes : 0);
	if (is_sampled)
		emit_text(out, "sampler", snapshot_sampler_kind(snapshot));
	if (is_sampled && !snapshot_samples_pools(snapshot))
		emit_real(out, "confidence", 0.95);
	emit_end(out);
}

static void emit_frame(struct emitter *out, const struct frame_view *frame)
{
	char *function = frame->function ? frame_function(NULL, frame) : NULL;

	if (frame->function && !function)
		emit_err(out, -ENOMEM);
	emit_object(out, NULL);
	emit_text(out, "filename", frame->filename);
	emit_uint(out, "lineno", frame->lineno);
	emit_text(out, "function", function);
	emit_text(out, "object", frame->object);
	emit_text(out, "build_id", frame->build_id);
	if (frame->offset)
		emit_uint(out, frame->object ? "offset" : "address", frame->offset);
	if (frame->is_inlined)
		emit_bool(out, "inlined", true);
	emit_end(out);
	free(function);
}

void emit_frames(struct emitter *out, const struct frame_view *frame, uint32_t nframe)
{
	emit_list(out, "traceback");
	for (uint32_t i = nframe; i && emits_json(out); i--)
		emit_frame(out, &frame[i - 1]);
	emit_end(out);
}

void emit_sizes(struct emitter *out, const struct cost *cost, const struct cost *diff)
{
	emit_int(out, "size", cost->size);
	emit_int(out, "count", cost->count);
	if (!diff)
		return;
	emit_int(out, "size_diff", diff->size);
	emit_int(out, "count_diff", diff->count);
}

void emit_group(struct emitter *out, const struct report *report, const struct statistic *statistic)
{
	emit_text(out, "key", statistic->key);
	emit_text(out, "name", statistic_domain_name(report, statistic));
	emit_frames(out, statistic->frame, statistic->nframe);
}

/* ---- what is shown -------------------------------------------------------------------------------- */

/* An object for one side, or a list for two. some() writes the object of side number `at`. */
static void emit_sides(struct emitter *out, const char *key, const struct report *report,
		       void (*some)(struct emitter *out, const char *key, const struct report *report, size_t at))
{
	if (report_sides(report) == 1) {
		some(out, key, report, 0);
		return;
	}
	emit_list(out, key);
	for (size_t i = 0; i < report_sides(report); i++)
		some(out, NULL, report, i);
	emit_end(out);
}

static void emit_side_sampling(struct emitter *out, const char *key, const struct report *report, size_t at)
{
	if (report->cohort_nr)
		emit_cohort_sampling(out, key, &report->cohort[at]);
	else
		emit_sampling(out, key, report->snapshot[at]);
}

static void emit_side_gap_blocks(struct emitter *out, const char *key, const struct report *report, size_t at)
{
	emit_object(out, key);
	emit_sizes(out, &report->gap_blocks[at], NULL);
	emit_end(out);
}

void emit_origin(struct emitter *out, const struct report *report, const char *schema)
{
	const struct statistics *statistics = report->statistics;
	bool is_sampled = false, has_gap_blocks = false;

	emit_text(out, "schema", schema);
	emit_text(out, "key_type", key_type_name(statistics->key_type));
	if (statistics->measure)
		emit_text(out, "measure", measure_name(statistics->measure));
	emit_bool(out, "cumulative", statistics->cumulative);
	emit_cohorts(out, report);
	for (size_t i = 0; i < report_sides(report); i++) {
		is_sampled |= report_is_side_sampled(report, i);
		has_gap_blocks |= report->gap_blocks[i].count > 0;
	}
	if (is_sampled)
		emit_sides(out, "sampling", report, emit_side_sampling);
	if (has_gap_blocks)
		emit_sides(out, "gap_blocks", report, emit_side_gap_blocks);
}

/* ---- how far to trust it ---------------------------------------------------------------------- */

static uint64_t loss_sum(const struct report *report, const char *name)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < report->snapshot_nr; i++)
		if (__builtin_add_overflow(sum, snapshot__counter(report->snapshot[i], name), &sum))
			return UINT64_MAX;
	return sum;
}

static void emit_losses_of(struct emitter *out, const struct report *report, const struct snapshot *snapshot)
{
	const struct snapshot_tables *tables = snapshot__tables(snapshot);

	for (uint32_t i = 0; i < tables->counter_nr; i++) {
		const struct snap_counter *loss = &tables->counter[i];
		const char *name = snapshot__string(snapshot, loss->name);

		if (loss->kind == SNAP_LOST && loss->value)
			emit_uint(out, name, loss_sum(report, name));
	}
}

/* Losses that are not zero. A diff has the sums of both snapshots: gaps in either one distort the difference. */
void emit_caveats(struct emitter *out, const struct report *report)
{
	emit_text(out, "cannot_be_judged", report->unjudged);
	emit_list(out, "warnings");
	for (size_t i = 0; i < report->warning_nr; i++)
		emit_text(out, NULL, report->warning[i]);
	emit_end(out);
	emit_object(out, "losses");
	for (size_t i = 0; i < report->loss_nr; i++)
		emit_uint(out, report->loss[i].name, report->loss[i].value);
	for (size_t i = 0; i < report->snapshot_nr; i++)
		emit_losses_of(out, report, report->snapshot[i]);
	emit_end(out);
}
