// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cmd.h"

extern const struct command cmd_attach, cmd_run, cmd_stats, cmd_diff, cmd_show, cmd_convert,
	cmd_doctor;

int main(int argc, char **argv)
{
	/* In the order of `allocsnap --help`. */
	static const struct command *const commands[] = {
		&cmd_attach, &cmd_run, &cmd_stats, &cmd_diff, &cmd_show, &cmd_convert,
		&cmd_doctor, NULL,
	};

	return commands_main(argc, argv, commands);
}
