// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/sum.h"

static int ask(const struct fleet *fleet, const struct cohort *cohort, struct statistics **ret,
	       struct reason *why)
{
	struct fleet_sum sum = {};
	int err = fleet_sum_make(fleet->catalogue, cohort, fleet->facts.origin_nr, &sum, why);
	const struct tally tally = { sum.cost, sum.sums };

	if (!err)
		err = cohort_error(tally_statistics(fleet->dictionary.snapshot, &tally, &fleet->chosen.engine, ret, why),
				   &cohort, 1, why);
	fleet_sum_release(&sum);
	return err;
}

static int answer(struct fleet *fleet, const struct cohort *cohort)
{
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	struct fleet_report report;
	int status;

	if (ask(fleet, cohort, &statistics, &why))
		return say_failure("%s", why.text);
	fleet_let_go(fleet);
	status = fleet_report_make(fleet, &cohort, 1, &report);
	report.report.statistics = statistics;
	if (!status)
		status = print_report(&fleet->options->stats, &fleet->chosen, &report.report);
	fleet_report_release(&report);
	statistics_free(statistics);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	const struct fleet_where where = { "where", &options->where };
	struct cohort cohort = {};
	struct fleet fleet;
	int status = fleet_begin(&cmd_fleet_stats, options, &fleet);

	(void)args;
	if (!status)
		status = fleet_choose(&cmd_fleet_stats, &fleet, &where, 1,
				      options->all_times ? COHORT_ALL : COHORT_LATEST, &cohort);
	if (!status)
		status = answer(&fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}

#define STATS offsetof(struct fleet_options, stats)
#define SELECT offsetof(struct fleet_options, stats.select)

const struct command cmd_fleet_stats = {
	.name = "fleet stats",
	.args = "",
	.help = "what holds the memory of a fleet: the latest snapshot of each process, added up",
	.detail = SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.option = { { .row = catalogue_rows }, { .row = where_rows }, { .row = times_rows },
		    { fleet_group_rows, STATS }, { output_rows, STATS }, { .row = names_rows },
		    { filter_rows, SELECT }, { wrapper_rows, SELECT } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.run = run,
};
