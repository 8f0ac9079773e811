// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/sum.h"

static int sum_cohort(struct fleet *fleet, const struct cohort *cohort, struct statistics **ret,
		      struct reason *why)
{
	struct fleet_sum sum = {};
	int err = fleet_add_up(fleet, cohort, 0, &sum, why);
	const struct tally tally = { sum.cost, sum.sums, sum.unseen_bytes, sum.is_open };

	if (!err)
		err = cohort_explain_error(tally_statistics(fleet->dictionary.snapshot, &tally, &fleet->chosen.engine, ret, why),
				   &cohort, 1, why);
	fleet_sum_release(&sum);
	return err;
}

static int report_cohort(struct fleet *fleet, const struct cohort *cohort)
{
	struct statistics *statistics = NULL;
	struct reason why = { "out of memory" };
	struct fleet_report report;
	int status;

	if (sum_cohort(fleet, cohort, &statistics, &why))
		return log_failure("%s", why.text);
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
	struct cohort cohort = {};
	const struct cohort *const chosen = &cohort;
	struct fleet fleet;
	int status = fleet_begin(&cmd_fleet_stats, options, &fleet);

	(void)args;
	if (!status)
		status = fleet_choose_where(&cmd_fleet_stats, &fleet,
					    options->all_times ? COHORT_ALL :
					    options->all_processes ? COHORT_LATEST : COHORT_LIVE, &cohort);
	if (!status)
		status = fleet_read(&fleet, &chosen, 1, FLEET_SUMS);
	if (!status)
		status = report_cohort(&fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}

#define STATS offsetof(struct fleet_options, stats)
#define SELECT offsetof(struct fleet_options, stats.select)

const struct command cmd_fleet_stats = {
	.name = "fleet stats",
	.args = "",
	.help = "report what holds the memory of a fleet: the sum of each process's latest snapshot",
	.detail = "Processes that had ended are left out, and a line says so: those whose last snapshot, a later program of "
		  "the process, or a later boot of the host shows the end; and those that were not seen again, although two "
		  "snapshots were due, or others of the host were recorded after their recording had stopped. A --where with "
		  "'end', or up to a 'time', decides this instead.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet stats --where 'host=web-*' --group-by function",
	.option = { { source_rows, 0, "Which snapshots" }, { where_rows, 0, "Which snapshots" },
		    { times_rows, 0, "Which snapshots" }, { live_rows, 0, "Which snapshots" },
		    { fleet_group_rows, STATS, "Report" },
		    { output_rows, STATS, "Report" }, { names_rows, 0, "Report" },
		    { filter_rows, SELECT, "Filters" }, { wrapper_rows, SELECT, "Own frames" } },
	.defaults = &(const struct fleet_options){ FLEET_DEFAULTS },
	.options_size = sizeof(struct fleet_options),
	.pages = true,
	.run = run,
};
