// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "cli/pager.h"
#include "fleet/cluster/cluster_units.h"
#include "fleet/per_host.h"
#include "render/fleet.h"

static int compare_hosts_of(struct fleet *fleet, const struct fleet_question *question, struct host_rows *ret,
			    struct reason *why)
{
	return fleet->units ? cluster_units__hosts(fleet->units, question->cohort, question->groups, ret, why) :
			      fleet_compare_hosts(question, ret, why);
}

static int list_hosts(struct fleet *fleet, const struct fleet_question *question,
		      struct fleet_answer *answer, bool is_json)
{
	struct host_rows rows = {};
	struct reason why = { "out of memory" };
	int status;

	if (compare_hosts_of(fleet, question, &rows, &why))
		return log_failure("%s", why.text);
	fleet_let_go(fleet);
	answer->hosts = &rows;
	pager_begin();
	status = report_write_error(fleet_put_hosts(stdout, answer, is_json));
	host_rows_release(&rows);
	return status;
}

static int run(const void *command_options, const struct arguments *args)
{
	const struct fleet_options *options = command_options;
	const struct fleet_list list = {
		&cmd_fleet_hosts, options->all_processes ? COHORT_LATEST : COHORT_LIVE, list_hosts,
	};

	(void)args;
	return fleet_list_run(&list, options);
}

const struct command cmd_fleet_hosts = {
	.name = "fleet hosts",
	.args = "",
	.help = "show how much hosts differ in each line, and which hosts stand out",
	.detail = "The value of a host is the sum over its processes, each in its latest snapshot; those that had ended "
		  "are left out, as in 'fleet stats', and a line says so. A host is an "
		  "outlier if it exceeds the median of all hosts by 3.5 / 0.6745 times the median deviation. The "
		  "deviation counts as at least 4 KiB and at least 1 % of the median. A ! marks lines where one "
		  "host, or one in twenty, is an outlier.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet hosts --where comm=shopd --group-by function",
	FLEET_LIST_OPTIONS({ live_rows, 0, "Which snapshots" },),
	.run = run,
};
