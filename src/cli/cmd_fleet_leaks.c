// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <inttypes.h>
#include <stdio.h>

#include "base/reason.h"
#include "cli/cmd_fleet.h"
#include "fleet/per_host.h"
#include "render/fleet.h"

/* Reports the processes and hosts that could not be judged. */
static void report_unjudged(const struct leak_rows *rows)
{
	uint32_t nr = rows->processes_short, in_gaps = rows->processes_in_gaps;

	if (nr)
		log_info("%" PRIu32 " process%s fewer than three snapshots: nothing is known of how they grow", nr,
		    nr == 1 ? " has" : "es have");
	if (in_gaps)
		log_info("%" PRIu32 " process%s gaps in what was recorded: what may be gone looks like growth there, and is not "
		    "judged", in_gaps, in_gaps == 1 ? " has" : "es have");
	if (rows->hosts_unjudged)
		log_info("on %" PRIu32 " host%s there are no others", rows->hosts_unjudged, rows->hosts_unjudged == 1 ? "" : "s");
}

static int list_leaks(struct fleet *fleet, const struct fleet_question *question,
		      struct fleet_answer *answer, const struct fleet_renderer *format)
{
	struct leak_rows rows = {};
	struct reason why = { "out of memory" };
	int status;

	if (fleet_find_leaks(question, &rows, &why))
		return log_failure("%s", why.text);
	fleet_let_go(fleet);
	if (rows.processes_short + rows.processes_in_gaps == answer->report->cohort[0].processes) {
		leak_rows_release(&rows);
		return log_failure("no process has three snapshots without gaps in between: nothing is known of how they grow");
	}
	report_unjudged(&rows);
	answer->leaks = &rows;
	status = report_write_error(format->leaks(stdout, answer));
	leak_rows_release(&rows);
	return status;
}

static int run(const void *options, const struct arguments *args)
{
	const struct fleet_list list = { &cmd_fleet_leaks, COHORT_ALL, list_leaks };

	(void)args;
	return fleet_list_run(&list, options);
}

const struct command cmd_fleet_leaks = {
	.name = "fleet leaks",
	.args = "",
	.help = "find lines that grow steadily on most hosts that have them",
	.detail = "A line grows steadily in a process if all of this holds: the process has three or more "
		  "snapshots; the line ends higher than it began; at least half of its steps from one snapshot to "
		  "the next go up, and at least two steps; and at least three in four of the steps that change it "
		  "go up. (A single step up is a warm-up.) The line is a leak if it grows steadily on half of the "
		  "hosts that have it. Processes with fewer snapshots, or with gaps in the recording "
		  "(--max-overhead), are counted separately.\n\n"
		  SELECTION_DETAIL "\n\n" SELECT_DETAIL,
	.example = "allocsnap fleet leaks --where comm=shopd",
	FLEET_LIST_OPTIONS,
	.run = run,
};
