// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/cohorts.h"

#include <inttypes.h>

#include "base/array.h"
#include "engine/order.h"
#include "render/clean.h"
#include "render/json_parts.h"
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

int put_cohorts(FILE *out, const struct report *report)
{
	static const char *const names[] = { "baseline: ", "candidate: " };
	char text[COHORT_TEXT_MAX];
	int err = 0;

	for (size_t i = 0; i < report->cohort_nr && !err; i++)
		err = put_line(out, "%s%s", report->cohort_nr > 1 ? names[i] : "",
			       cohort_text(text, &report->cohort[i]));
	return err;
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

static json_t *left_out_json(const struct report_left_out *left_out)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "processes", left_out->processes);

	err = err ?: json_set(object, "size", json_real(left_out->bytes));
	err = err ?: json_set_uint(object, "least_age_ns", left_out->least_age_ns);
	err = err ?: json_set_uint(object, "most_age_ns", left_out->most_age_ns);
	return json_unless(err, object);
}

static json_t *cohort_json(const struct report_cohort *cohort)
{
	json_t *object = json_object();
	int err = json_set_uint(object, "snapshots", cohort->snapshots);

	err = err ?: json_set_uint(object, "processes", cohort->processes);
	err = err ?: json_set_uint(object, "hosts", cohort->hosts);
	if (cohort->age_ns)
		err = err ?: json_set_uint(object, "age_ns", cohort->age_ns);
	if (cohort->ended.processes)
		err = err ?: json_set(object, "ended", left_out_json(&cohort->ended));
	if (cohort->unseen.processes)
		err = err ?: json_set(object, "not_seen_again", left_out_json(&cohort->unseen));
	return json_unless(err, object);
}

int json_set_cohorts(json_t *head, const struct report *report)
{
	int err;

	if (!report->cohort_nr)
		return 0;
	if (report->cohort_nr == 1)
		return json_set(head, "selection", cohort_json(&report->cohort[0]));
	err = json_set(head, "baseline", cohort_json(&report->cohort[0]));
	err = err ?: json_set(head, "candidate", cohort_json(&report->cohort[1]));
	return err ?: json_set_text(head, "order", report->is_by_process_mean ? "process_mean" : "sum");
}

json_t *cohort_sampling_json(const struct report_cohort *cohort)
{
	json_t *object = json_object();

	if (!cohort->sampled)
		return json_unless(json_set_int(object, "bytes", 0), object);
	return json_unless(json_set_uint(object, "snapshots", cohort->sampled) ?:
			   json_set(object, "confidence", json_real(0.95)), object);
}

static json_t *mean_json(double size, double count)
{
	json_t *object = json_object();
	int err = json_set(object, "size", json_real(size));

	return json_unless(err ?: json_set(object, "count", json_real(count)), object);
}

int json_set_process_means(json_t *object, const struct report *report, const struct statistic *statistic)
{
	const struct cost *cost = &statistic->cost, *diff = &statistic->diff;
	struct process_nr nr;
	int err;

	if (!report->has_process_means)
		return 0;
	nr = processes_of(report);
	err = json_set(object, "baseline_process_mean",
		       mean_json((double)(cost->size - diff->size) / nr.old,
				 (double)(cost->count - diff->count) / nr.old));
	err = err ?: json_set(object, "candidate_process_mean",
			      mean_json((double)cost->size / nr.new, (double)cost->count / nr.new));
	return err ?: json_set(object, "process_mean_diff",
			       mean_json(process_mean_diff(cost->size, diff->size, &nr),
					 process_mean_diff(cost->count, diff->count, &nr)));
}
