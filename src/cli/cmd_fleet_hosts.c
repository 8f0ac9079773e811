// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/spread.h"
#include "render/fleet.h"

static int answer(struct fleet *fleet, const struct fleet_question *question,
		  struct fleet_answer *answer, const struct fleet_renderer *format)
{
	struct host_rows rows = {};
	struct reason why = { "out of memory" };
	int status;

	if (fleet_hosts(question, &rows, &why))
		return say_failure("%s", why.text);
	fleet_let_go(fleet);
	answer->hosts = &rows;
	status = written(format->hosts(stdout, answer));
	host_rows_release(&rows);
	return status;
}

static int run(const void *options, const struct arguments *args)
{
	const struct fleet_list list = { &cmd_fleet_hosts, COHORT_LATEST, answer };

	(void)args;
	return fleet_list_run(&list, options);
}

const struct command cmd_fleet_hosts = {
	.name = "fleet hosts",
	.args = "",
	.help = "how much hosts differ in each line, and which of them stand out",
	.detail = "What a host has is what its processes have together, each in its latest snapshot. An outlier has more\n"
		  "than the median of all hosts by 3.5 / 0.6745 times the median deviation (which counts as 4 KiB and as 1 %\n"
		  "of the median at least); ! where that is one host, or one in twenty.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	FLEET_LIST_OPTIONS,
	.run = run,
};
