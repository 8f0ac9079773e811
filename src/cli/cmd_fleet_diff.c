// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <string.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "engine/order.h"
#include "fleet/sum.h"

enum diff_order {
	ORDER_UNSAID = 0, /* by process mean if the cohorts differ in their numbers of processes, else by sum */
	ORDER_SUM,
	ORDER_PROCESS_MEAN,
};

struct diff_options {
	struct fleet_options fleet;
	struct string_list baseline, candidate;
	enum sort_order sort;
	enum diff_order order;
};

/* ---- options ------------------------------------------------------------------------------------- */

static int parse_order(const char *text, void *field, struct reason *why)
{
	enum diff_order *order = field;

	if (!strcmp(text, "sum"))
		*order = ORDER_SUM;
	else if (!strcmp(text, "process-mean"))
		*order = ORDER_PROCESS_MEAN;
	else
		return reason_set(why, -EINVAL, "'%.100s' is neither sum nor process-mean", text);
	return 0;
}

static const struct option_choice orders[] = {
	{ "sum", "all processes together" },
	{ "process-mean", "the average process" },
	{},
};

#define FIELD(name) offsetof(struct diff_options, name)

static const struct option_row rows[] = {
	{ "baseline", 0, OPTION_LIST, FIELD(baseline),
	  .arg = "SEL", .help = "compare with snapshots that match SEL (see below); repeatable: all must match" },
	{ "candidate", 0, OPTION_LIST, FIELD(candidate),
	  .arg = "SEL", .help = "compare snapshots that match SEL with the baseline; repeatable: all must match" },
	{ "sort", 's', OPTION_CUSTOM, FIELD(sort), .parse = parse_sort_order,
	  .choice = sort_order_choice, .arg = "ORDER", .default_text = "abs", .help = "what comes first" },
	{ "order", 0, OPTION_CUSTOM, FIELD(order), .parse = parse_order,
	  .arg = "OF", .default_text = "process-mean if the numbers of processes differ",
	  .choices = orders, .help = "sort by the change of" },
	{},
};

/* ---- sums and report ------------------------------------------------------------------------------- */

/* Adds up both cohorts while it reads them. */
static int compare_cohorts(struct fleet *fleet, const struct cohort *const cohort[2], struct statistics **ret,
			   struct reason *why)
{
	struct fleet_sum sum[2] = {};
	struct tally tally[2] = {};
	int err = 0;

	for (size_t i = 0; i < 2 && !err; i++) {
		err = fleet_add_up(fleet, cohort[i], i, &sum[i], why);
		tally[i] = (struct tally){ sum[i].cost, sum[i].sums, sum[i].unseen_bytes, sum[i].is_open };
	}
	if (!err)
		err = cohort_explain_error(tally_compare(fleet->dictionary.snapshot, &tally[0], &tally[1], &fleet->chosen.engine, ret,
						 why), cohort, 2, why);
	fleet_sum_release(&sum[0]);
	fleet_sum_release(&sum[1]);
	return err;
}

static void set_diff_order(const struct diff_options *options, const struct cohort *const cohort[2],
			   struct report *report, struct statistics *diff)
{
	const struct process_nr nr = { cohort[0]->snapshot_nr, cohort[1]->snapshot_nr };
	bool differ = nr.old != nr.new;

	report->is_by_process_mean = options->order ? options->order == ORDER_PROCESS_MEAN : differ;
	report->has_process_means = differ || report->is_by_process_mean;
	if (report->is_by_process_mean)
		statistics_sort_means(diff->statistic, diff->statistic_nr, options->sort, &nr);
	report->statistics = diff;
}

static int report_cohorts(const struct diff_options *options, struct fleet *fleet,
			  const struct cohort *const cohort[2])
{
	struct statistics *diff = NULL;
	struct reason why = { "out of memory" };
	struct fleet_report report;
	int status;

	if (compare_cohorts(fleet, cohort, &diff, &why))
		return log_failure("%s", why.text);
	fleet_let_go(fleet);
	status = fleet_report_make(fleet, cohort, 2, &report);
	set_diff_order(options, cohort, &report.report, diff);
	if (!status)
		status = print_report(&options->fleet.stats, &fleet->chosen, &report.report);
	fleet_report_release(&report);
	statistics_free(diff);
	return status;
}

static int choose_sides(const struct diff_options *options, struct fleet *fleet, struct cohort *baseline,
			struct cohort *candidate)
{
	const struct fleet_where where = { "where", &options->fleet.where };
	enum cohort_times times = options->fleet.all_times ? COHORT_ALL : COHORT_LATEST;
	const struct fleet_choice choices[] = {
		{ { { "baseline", &options->baseline }, where }, times, baseline },
		{ { { "candidate", &options->candidate }, where }, times, candidate },
	};

	return fleet_choose(&cmd_fleet_diff, fleet, choices, 2);
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct diff_options *options = command_options;
	struct cohort baseline = {}, candidate = {};
	const struct cohort *const both[] = { &baseline, &candidate };
	struct fleet fleet;
	int status;

	(void)args;
	if (!options->baseline.item_nr || !options->candidate.item_nr)
		return log_refusal(&cmd_fleet_diff, "--baseline and --candidate say what is compared");
	status = check_diff_format(&cmd_fleet_diff, &options->fleet.stats);
	if (status)
		return status;
	status = fleet_begin(&cmd_fleet_diff, &options->fleet, &fleet);
	fleet.chosen.engine.sort = options->sort;
	if (!status)
		status = choose_sides(options, &fleet, &baseline, &candidate);
	if (!status)
		status = fleet_read(&fleet, both, 2, FLEET_SUMS);
	if (!status)
		status = report_cohorts(options, &fleet, both);
	cohort_release(&baseline);
	cohort_release(&candidate);
	fleet_end(&fleet);
	return status;
}

#define FLEET FIELD(fleet)
#define STATS FIELD(fleet.stats)
#define SELECT FIELD(fleet.stats.select)

const struct command cmd_fleet_diff = {
	.name = "fleet diff",
	.args = "--baseline SEL --candidate SEL",
	.arg_max = 0,
	.help = "compare two cohorts (versions, hosts, days): what grew and what shrank",
	.detail = "Lines have tracemalloc's form: size=NEW (NEW - OLD), of sums. If the cohorts have different "
		  "numbers of processes, the average of a process follows and determines the order.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet diff --baseline label.version=1 --candidate label.version=2",
	.option = { { rows, 0, "What to compare" }, { source_rows, FLEET, "Which snapshots" },
		    { where_rows, FLEET, "Which snapshots" }, { times_rows, FLEET, "Which snapshots" },
		    { fleet_group_rows, STATS, "Report" }, { output_rows, STATS, "Report" },
		    { names_rows, FLEET, "Report" }, { filter_rows, SELECT, "Filters" },
		    { wrapper_rows, SELECT, "Own frames" } },
	.defaults = &(const struct diff_options){ .fleet = { FLEET_DEFAULTS } },
	.options_size = sizeof(struct diff_options),
	.pages = true,
	.run = run,
};
