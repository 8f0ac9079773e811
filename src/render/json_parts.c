// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/json_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "engine.h"
#include "engine/estimate.h"
#include "engine/order.h"
#include "render/clean.h"
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

json_t *json_whole_copy(json_t *value)
{
	json_t *copy = json_deep_copy(value);

	return json_unless(!json_equal(copy, value), copy);
}

json_t *json_unless(int err, json_t *value)
{
	if (!err)
		return value;
	json_decref(value);
	return NULL;
}

json_t *json_count(uint64_t value)
{
	return value > INT64_MAX ? json_real(value) : json_integer(value);
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

/* ---- sums over cohorts ---------------------------------------------------------------------- */

size_t report_sides(const struct report *report)
{
	return report->cohort_nr ?: report->snapshot_nr;
}

bool report_is_side_sampled(const struct report *report, size_t side)
{
	return report->cohort_nr ? report->cohort[side].sampled :
				   snapshot__tables(report->snapshot[side])->trace_weight != NULL;
}

static const char *plural_ending(uint32_t nr, const char *ending)
{
	return nr == 1 ? "" : ending;
}

/* ---- text ----------------------------------------------------------------------------------- */

const char *age_text(char text[AGE_TEXT_MAX], uint64_t ns)
{
	static const struct {
		const char *name;
		double seconds;
	} unit[] = { { "days", 86400 }, { "h", 3600 }, { "min", 60 }, { "s", 1 } };
	double age = ns / 1e9;
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(unit) && age < 2 * unit[i].seconds)
		i++;
	age /= unit[i].seconds;
	snprintf(text, AGE_TEXT_MAX, "%.*f %s", age < 9.95, age, unit[i].name);
	return text;
}

static const char *cohort_text(char text[COHORT_TEXT_MAX], const struct report_cohort *cohort)
{
	char age[AGE_TEXT_MAX];

	snprintf(text, COHORT_TEXT_MAX, "%" PRIu32 " snapshot%s of %" PRIu32 " process%s on %" PRIu32 " host%s%s%s%s",
		 cohort->snapshots, plural_ending(cohort->snapshots, "s"), cohort->processes,
		 plural_ending(cohort->processes, "es"), cohort->hosts, plural_ending(cohort->hosts, "s"),
		 cohort->age_ns ? ", the oldest " : "", cohort->age_ns ? age_text(age, cohort->age_ns) : "",
		 cohort->age_ns ? " older than the newest" : "");
	return text;
}

void put_cohorts(struct emitter *out, const struct report *report)
{
	static const char *const names[] = { "baseline: ", "candidate: " };
	char text[COHORT_TEXT_MAX];

	for (size_t i = 0; i < report->cohort_nr; i++)
		emit_line(out, "%s%s", report->cohort_nr > 1 ? names[i] : "", cohort_text(text, &report->cohort[i]));
}

static struct process_nr processes_of(const struct report *report)
{
	return (struct process_nr){ report->cohort[0].snapshots, report->cohort[1].snapshots };
}

const char *process_mean_text(char text[PROCESS_MEAN_TEXT_MAX], const struct report *report,
			      const struct cost *cost, const struct cost *diff)
{
	char mean[SIZE_TEXT_MAX], change[SIZE_TEXT_MAX];
	struct process_nr nr;

	*text = '\0';
	if (!report->has_process_means)
		return text;
	nr = processes_of(report);
	snprintf(text, PROCESS_MEAN_TEXT_MAX, ", per process %s (%s)",
		 size_text(mean, (double)cost->size / nr.new, false),
		 size_text(change, process_mean_diff(cost->size, diff->size, &nr), true));
	return text;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void emit_left_out(struct emitter *out, const char *key, const struct report_left_out *left_out)
{
	if (!left_out->processes)
		return;
	emit_object(out, key);
	emit_uint(out, "processes", left_out->processes);
	emit_real(out, "size", left_out->bytes);
	emit_uint(out, "least_age_ns", left_out->least_age_ns);
	emit_uint(out, "most_age_ns", left_out->most_age_ns);
	emit_end(out);
}

static void emit_cohort(struct emitter *out, const char *key, const struct report_cohort *cohort)
{
	emit_object(out, key);
	emit_uint(out, "snapshots", cohort->snapshots);
	emit_uint(out, "processes", cohort->processes);
	emit_uint(out, "hosts", cohort->hosts);
	if (cohort->age_ns)
		emit_uint(out, "age_ns", cohort->age_ns);
	emit_left_out(out, "ended", &cohort->ended);
	emit_left_out(out, "not_seen_again", &cohort->unseen);
	emit_end(out);
}

void emit_cohorts(struct emitter *out, const struct report *report)
{
	static const char *const keys[] = { "baseline", "candidate" };

	for (size_t i = 0; i < report->cohort_nr; i++)
		emit_cohort(out, report->cohort_nr > 1 ? keys[i] : "selection", &report->cohort[i]);
	if (report->cohort_nr > 1)
		emit_text(out, "order", report->is_by_process_mean ? "process_mean" : "sum");
}

void emit_cohort_sampling(struct emitter *out, const char *key, const struct report_cohort *cohort)
{
	emit_object(out, key);
	if (cohort->sampled) {
		emit_uint(out, "snapshots", cohort->sampled);
		emit_real(out, "confidence", 0.95);
	} else {
		emit_uint(out, "bytes", 0);
	}
	emit_end(out);
}

static void emit_mean(struct emitter *out, const char *key, double size, double count)
{
	emit_object(out, key);
	emit_real(out, "size", size);
	emit_real(out, "count", count);
	emit_end(out);
}

void emit_process_means(struct emitter *out, const struct report *report, const struct statistic *statistic)
{
	const struct cost *cost = &statistic->cost, *diff = &statistic->diff;
	struct process_nr nr;

	if (!report->has_process_means)
		return;
	nr = processes_of(report);
	emit_mean(out, "baseline_process_mean", (double)(cost->size - diff->size) / nr.old,
		  (double)(cost->count - diff->count) / nr.old);
	emit_mean(out, "candidate_process_mean", (double)cost->size / nr.new, (double)cost->count / nr.new);
	emit_mean(out, "process_mean_diff", process_mean_diff(cost->size, diff->size, &nr),
		  process_mean_diff(cost->count, diff->count, &nr));
}
