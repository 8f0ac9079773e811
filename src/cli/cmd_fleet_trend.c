// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/spread.h"
#include "render/fleet.h"

static int answer(struct fleet *fleet, const struct fleet_question *question,
		  struct fleet_answer *answer, const struct fleet_renderer *format)
{
	struct trend_rows rows = {};
	struct reason why = { "out of memory" };
	int status;

	if (fleet_trend(question, &rows, &why))
		return say_failure("%s", why.text);
	fleet_let_go(fleet);
	if (!rows.processes) {
		trend_rows_release(&rows);
		return say_failure("no process has snapshots of two times: there is no trend");
	}
	answer->trend = &rows;
	status = written(format->trend(stdout, answer));
	trend_rows_release(&rows);
	return status;
}

static int run(const void *options, const struct arguments *args)
{
	const struct fleet_list list = { &cmd_fleet_trend, COHORT_ALL, answer };

	(void)args;
	return fleet_list_run(&list, options);
}

const struct command cmd_fleet_trend = {
	.name = "fleet trend",
	.args = "",
	.help = "how fast each line grows: over all snapshots of each process",
	.detail = "A slope is that of least squares with a level of its own for each process: programs that come and go are no\n"
		  "growth, nor a recorder that is started again a loss. The slope is that of a process that has the line;\n"
		  "TOGETHER is what all of them gained by their slopes, FIRST and LAST are sums over their first and last\n"
		  "snapshots. What was recorded for longer counts for more, also in the order.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	FLEET_LIST_OPTIONS,
	.run = run,
};
