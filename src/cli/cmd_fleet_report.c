// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The parts that all reports about cohorts have, and the losses and warnings on stderr. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "cli/cmd_fleet.h"
#include "cli/open_input.h"
#include "render/facts.h"

/* ---- losses: sums by name over processes; a snapshot has the loss of its process so far -------------------- */

/*
 * The limit of loss names that this version does not know: a file can have any number of them. Names beyond it are
 * summed as "others".
 */
#define UNKNOWN_NAMES_MAX 64
#define OTHERS "others"

/* NULL: the report has no such loss. */
static struct report_loss *find_report_loss(const struct fleet_report *report, const char *name)
{
	for (size_t i = 0; i < report->loss_nr; i++)
		if (!strcmp(report->loss[i].name, name))
			return &report->loss[i];
	return NULL;
}

static struct report_loss *make_report_loss(struct fleet_report *report, const char *name)
{
	return array_push(report, loss, ((struct report_loss){ name, 0 })) ? NULL : &report->loss[report->loss_nr - 1];
}

/* The losses of one process that the sums have already, by their position in the report. */
struct losses_so_far {
	uint64_t *value;
	size_t value_nr, value_alloc;
};

static uint64_t add_losses_saturating(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* Whether a loss counts as OTHERS. All of them are one loss, because only their sum is known to grow. */
static bool is_other(const struct fleet_report *report, const char *name)
{
	return report->loss_nr >= UNKNOWN_NAMES_MAX && !find_report_loss(report, name) && !counter_meaning(name);
}

/* Adds the part by which the loss exceeds the value that the process had before. */
static int add_report_loss(struct fleet_report *report, struct losses_so_far *so_far, const struct fleet_loss *loss)
{
	struct report_loss *sum = find_report_loss(report, loss->name) ?: make_report_loss(report, loss->name);
	uint64_t *before;

	if (!sum)
		return -ENOMEM;
	while (so_far->value_nr < report->loss_nr)
		if (array_push(so_far, value, 0))
			return -ENOMEM;
	before = &so_far->value[sum - report->loss];
	if (loss->value <= *before)
		return 0;
	sum->value = add_losses_saturating(sum->value, loss->value - *before);
	*before = loss->value;
	return 0;
}

static int add_snapshot_losses(struct fleet_report *report, struct losses_so_far *so_far,
			       const struct fleet_facts *facts, const struct fleet_snapshot *snapshot)
{
	struct fleet_loss others = { OTHERS, 0 };
	int err = 0;

	for (uint32_t i = 0; i < snapshot->loss_nr && !err; i++) {
		const struct fleet_loss *loss = &facts->loss[snapshot->loss + i];

		if (is_other(report, loss->name))
			others.value = add_losses_saturating(others.value, loss->value);
		else if (loss->value)
			err = add_report_loss(report, so_far, loss);
	}
	return err || !others.value ? err : add_report_loss(report, so_far, &others);
}

/* Goes process by process, the order of cohorts, so that a process in both cohorts counts once. */
static int add_report_losses(struct fleet_report *report, const struct fleet_facts *facts,
			     const struct cohort *const *cohort, size_t cohort_nr)
{
	struct losses_so_far so_far = {};
	size_t at[2] = {};
	int err = 0;

	for (uint32_t process = 0; process < facts->process_nr && !err; process++) {
		so_far.value_nr = 0;
		for (size_t side = 0; side < cohort_nr; side++)
			for (; at[side] < cohort[side]->snapshot_nr && !err &&
			       cohort[side]->snapshot[at[side]]->process == process; at[side]++)
				err = add_snapshot_losses(report, &so_far, facts, cohort[side]->snapshot[at[side]]);
	}
	free(so_far.value);
	return err;
}

/* ---- the report ------------------------------------------------------------------------------------------ */

/* Between hosts there is only the wall clock. */
static uint64_t oldest_age_ns(const struct cohort *cohort)
{
	int64_t oldest_ns = INT64_MAX, newest_ns = INT64_MIN;

	for (size_t i = 0; i < cohort->snapshot_nr; i++) {
		int64_t time_ns = cohort->snapshot[i]->time_ns;

		oldest_ns = time_ns < oldest_ns ? time_ns : oldest_ns;
		newest_ns = time_ns > newest_ns ? time_ns : newest_ns;
	}
	return cohort->snapshot_nr ? (uint64_t)newest_ns - (uint64_t)oldest_ns : 0;
}

static struct report_left_out left_out_of(const struct cohort_ended *ended)
{
	return (struct report_left_out){
		ended->process_nr, ended->bytes, ended->least_behind_ns, ended->most_behind_ns,
	};
}

static struct report_cohort cohort_facts(const struct cohort *cohort)
{
	struct report_cohort facts = {
		.snapshots = cohort->snapshot_nr,
		.processes = cohort->process_nr,
		.hosts = cohort->host_nr,
		.ended = left_out_of(&cohort->ended),
		.unseen = left_out_of(&cohort->unseen),
	};

	for (size_t i = 0; i < cohort->snapshot_nr; i++)
		facts.sampled += cohort->snapshot[i]->is_sampled;
	return facts;
}

static int report_doubts(const struct fleet_report *report)
{
	int err = log_losses(report->loss, report->loss_nr);

	for (size_t i = 0; i < report->doubts.nr; i++)
		log_info("warning: %s", report->doubts.line[i]);
	return err;
}

int fleet_report_make(const struct fleet *fleet, const struct cohort *const *cohort, size_t cohort_nr,
		      struct fleet_report *ret)
{
	const struct fleet_doubt doubt = {
		.facts = &fleet->facts,
		.cohort = cohort,
		.cohort_nr = cohort_nr,
		.engine = &fleet->chosen.engine,
		.line_drift = fleet->options->line_drift,
		.refused_nr = fleet->dictionary.refused_nr,
		.now_ns = time(NULL) * 1000000000ll,
	};
	int err;

	*ret = (struct fleet_report){ .dictionary = fleet->dictionary.snapshot };
	err = fleet_doubts_find(&doubt, &ret->doubts);
	for (size_t i = 0; i < cohort_nr; i++)
		ret->cohort[i] = cohort_facts(cohort[i]);
	if (cohort_nr == 1 && cohort[0]->times != COHORT_ALL)
		ret->cohort[0].age_ns = oldest_age_ns(cohort[0]);
	if (!err)
		err = add_report_losses(ret, &fleet->facts, cohort, cohort_nr) ?: report_doubts(ret);
	if (err)
		return log_failure("%s", strerror(-err));
	ret->report = (struct report){
		.snapshot = &ret->dictionary,
		.snapshot_nr = 1,
		.warning = ret->doubts.line,
		.warning_nr = ret->doubts.nr,
		.cohort = ret->cohort,
		.cohort_nr = cohort_nr,
		.loss = ret->loss,
		.loss_nr = ret->loss_nr,
	};
	return EXIT_DONE;
}

void fleet_report_release(struct fleet_report *report)
{
	free(report->loss);
}
