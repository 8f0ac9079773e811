// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/cohorts.h"

#include <inttypes.h>

#include "base/array.h"
#include "engine/order.h"
#include "snapshot.h"

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

const char *cohort_text(char text[COHORT_TEXT_MAX], const struct report_cohort *cohort)
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
