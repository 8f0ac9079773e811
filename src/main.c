// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cmd.h"

extern const struct command cmd_attach, cmd_run, cmd_stats, cmd_diff, cmd_show, cmd_convert;

int main(int argc, char **argv)
{
	/* In the order of `allocsnap --help`. */
	static const struct command *const commands[] = {
		&cmd_attach, &cmd_run, &cmd_stats, &cmd_diff, &cmd_show, &cmd_convert, NULL,
	};

	return commands_main(argc, argv, commands);
}
