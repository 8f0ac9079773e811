// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The commands hosts and leaks: from the command line to the rows and their report. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/per_host.h"
#include "fleet/row_top.h"
#include "render/fleet.h"

static int print_fleet_list(const struct fleet_list *list, struct fleet *fleet,
			    const struct fleet_question *question, struct report *report)
{
	const struct stats_options *options = &fleet->options->stats;
	const char **host = fleet_host_names(&fleet->facts);
	struct fleet_answer answer = { .report = report, .groups = question->groups, .host = host };
	int status;

	if (!host)
		return log_failure("%s", strerror(ENOMEM));
	log_unmatched(&options->select, &fleet->chosen, report->snapshot, report->snapshot_nr);
	report->top = options->top == TOP_UNSAID ? format_or_text(NULL)->top : options->top;
	report->full_names = options->full_names;
	report->oldest_first = options->select.tracemalloc;
	status = list->run(fleet, question, &answer, options->format);
	free(host);
	return status;
}

static int make_fleet_list(const struct fleet_list *list, struct fleet *fleet, const struct cohort *cohort)
{
	const struct statistics no_rows = {
		.key_type = fleet->chosen.engine.key_type,
		.cumulative = fleet->chosen.engine.cumulative,
	};
	struct fleet_question question = {
		.catalogue = fleet->catalogue, .facts = &fleet->facts, .cohort = cohort,
		.dictionary = fleet->dictionary.snapshot,
	};
	struct engine_options engine = fleet->chosen.engine;
	struct reason why = { "out of memory" };
	struct groups *groups = NULL;
	struct fleet_report report;
	int status;

	if (list->reads_files)
		engine.select = (struct selection){};
	if (groups_make(fleet->dictionary.snapshot, &engine, &groups, &why))
		return log_failure("%s", why.text);
	question.groups = groups;
	status = fleet_report_make(fleet, &cohort, 1, &report);
	report.report.statistics = &no_rows;
	if (!status)
		status = print_fleet_list(list, fleet, &question, &report.report);
	fleet_report_release(&report);
	groups_free(groups);
	return status;
}

/* The files have all rows, also of what was pushed to a cluster with --top. */
static void leave_out_merged_rows(struct fleet_facts *facts)
{
	for (size_t i = 0; i < facts->snapshot_nr; i++) {
		struct fleet_snapshot *snapshot = &facts->snapshot[i];
		uint32_t kept = 0;

		for (uint32_t k = snapshot->loss; k < snapshot->loss + snapshot->loss_nr; k++)
			if (strcmp(facts->loss[k].name, ROW_LOSS_MERGED))
				facts->loss[snapshot->loss + kept++] = facts->loss[k];
		snapshot->loss_nr = kept;
	}
}

int fleet_list_run(const struct fleet_list *list, const struct fleet_options *options)
{
	struct cohort cohort = {};
	const struct cohort *const chosen = &cohort;
	struct fleet fleet;
	int status = fleet_begin(list->command, options, &fleet);

	if (!status)
		status = fleet_choose_where(list->command, &fleet, list->times, &cohort);
	if (!status && list->reads_files && fleet.cluster)
		leave_out_merged_rows(&fleet.facts);
	if (!status)
		status = fleet_read(&fleet, &chosen, 1, list->reads_files ? FLEET_NAMES : FLEET_SUMS);
	if (!status)
		status = make_fleet_list(list, &fleet, &cohort);
	cohort_release(&cohort);
	fleet_end(&fleet);
	return status;
}
