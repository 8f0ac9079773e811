// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The program where nothing can be recorded: it reads snapshots (Makefile: READS_ONLY). In place of src/main.c and of
 * what records.
 */
#include <string.h>

#include "cli/cmd_help.h"
#include "cli/cmd_top.h"
#include "cli/leak_watch.h"
#include "top/live.h"

#define REFUSAL "this program only reads snapshots: recording is for x86-64 and arm64, and needs a program that was built for that"

extern const struct command cmd_leaks, cmd_list, cmd_stats, cmd_diff, cmd_report, cmd_show, cmd_convert, cmd_symbolize, cmd_push,
	cmd_fleet;

int main(int argc, char **argv)
{
	/* Ordered as in `allocsnap --help`. */
	static const struct command *const commands[] = {
		&cmd_top, &cmd_leaks, &cmd_list, &cmd_stats, &cmd_diff, &cmd_report, &cmd_show, &cmd_convert, &cmd_symbolize,
		&cmd_push, &cmd_fleet, NULL,
	};
	static const char *const absent[] = { "attach", "run", "record", "doctor", "census", "eject" };

	for (size_t i = 0; i < sizeof(absent) / sizeof(*absent) && argc > 1; i++)
		if (!strcmp(argv[1], absent[i]))
			return log_failure("%s: %s", argv[1], REFUSAL);
	return commands_main(argc, argv, commands);
}

const struct program_texts program_texts = {
	.summary = "Shows which code allocated the live memory of a process, from snapshots that allocsnap recorded on other machines. This "
		   "program cannot record.",
	.examples = "  allocsnap stats SNAP              # which lines hold memory?\n"
		    "  allocsnap diff OLD NEW            # which have grown?\n"
		    "  allocsnap leaks FOLDER            # which leak?\n",
};

const char *program_features(void)
{
	return "only reads snapshots";
}

/* No command has options of recording. */
const struct option_row capture_output_rows[] = { {} }, capture_what_rows[] = { {} }, capture_children_rows[] = { {} },
			capture_stack_rows[] = { {} }, capture_cost_rows[] = { {} }, capture_inject_rows[] = { {} };

int leak_watch_record(const struct command *, const struct capture_options *, const struct arguments *, uint64_t,
		      struct leak_watch *ret)
{
	*ret = (struct leak_watch){};
	return log_failure("%s", REFUSAL);
}

void leak_watch_release(struct leak_watch *)
{
}

int top_record(const struct top_command_options *, const struct engine_options *, const struct arguments *)
{
	return log_failure("%s", REFUSAL);
}

/* No view is live, so nothing calls these. */
void live_show(struct live *, pid_t)
{
}

void live_ask_snapshot(struct live *)
{
}

void live_clear_traces(struct live *)
{
}

void live_read(struct live *, struct live_news *ret)
{
	*ret = (struct live_news){};
}
