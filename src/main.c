// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd.h"

extern const struct command cmd_attach, cmd_run, cmd_record, cmd_top, cmd_leaks, cmd_list, cmd_stats, cmd_diff, cmd_report,
	cmd_show, cmd_convert, cmd_symbolize, cmd_push, cmd_fleet, cmd_doctor, cmd_census, cmd_eject;

int main(int argc, char **argv)
{
	/* Ordered as in `allocsnap --help`. */
	static const struct command *const commands[] = {
		&cmd_attach, &cmd_run, &cmd_record, &cmd_top, &cmd_leaks, &cmd_list, &cmd_stats, &cmd_diff, &cmd_report,
		&cmd_show, &cmd_convert, &cmd_symbolize, &cmd_push, &cmd_fleet, &cmd_doctor, &cmd_census, &cmd_eject, NULL,
	};

	return commands_main(argc, argv, commands);
}
