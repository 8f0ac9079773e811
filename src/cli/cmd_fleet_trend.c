// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "cli/pager.h"
#include "fleet/per_host.h"
#include "render/fleet.h"

/* Reports why there is no trend. */
static int refuse_trend(struct trend_rows *rows)
{
	bool has_gaps = rows->processes_in_gaps;

	trend_rows_release(rows);
	if (!has_gaps)
		return log_failure("no process has snapshots of two times: there is no trend");
	log_info("cannot be judged: all processes have gaps in what was recorded, and blocks from before them may "
		 "be gone");
	return EXIT_UNJUDGED;
}

static int list_trends(struct fleet *fleet, const struct fleet_question *question,
		       struct fleet_answer *answer, const struct fleet_renderer *format)
{
	struct trend_rows rows = {};
	struct reason why = { "out of memory" };
	int status;

	if (fleet_find_trends(question, &rows, &why))
		return log_failure("%s", why.text);
	fleet_let_go(fleet);
	if (!rows.processes)
		return refuse_trend(&rows);
	if (rows.processes_in_gaps)
		log_info("%" PRIu32 " process%s gaps in what was recorded: not judged", rows.processes_in_gaps,
			 rows.processes_in_gaps == 1 ? " has" : "es have");
	answer->trend = &rows;
	pager_begin();
	status = report_write_error(format->trend(stdout, answer));
	trend_rows_release(&rows);
	return status;
}

static int run(const void *options, const struct arguments *args)
{
	const struct fleet_list list = { &cmd_fleet_trend, COHORT_ALL, list_trends };

	(void)args;
	if (((const struct fleet_options *)options)->cluster.url)
		return log_refusal(&cmd_fleet_trend, "a ClickHouse tells no trends; 'fleet leaks' judges growth");
	return fleet_list_run(&list, options);
}

const struct command cmd_fleet_trend = {
	.name = "fleet trend",
	.args = "",
	.help = "show how fast each line grows over all snapshots of each process",
	.detail = "The slope of a line is fitted by least squares, with a separate level for each process. So a "
		  "program that starts or exits is no growth, and a restarted recording is no loss. The slope is "
		  "that of one process that has the line. TOGETHER is the growth of all processes by their slopes. "
		  "FIRST and LAST are sums over their first and last snapshots. Processes that were recorded for "
		  "longer count for more, also in the order. Processes with gaps in the recording (--max-overhead) "
		  "are left out. If there are no others, the exit status is 3.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet trend --where 'comm=shopd,time>=-7d'",
	FLEET_LIST_OPTIONS(),
	.run = run,
};
