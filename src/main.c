// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <fcntl.h>
#include <unistd.h>

#include "cli/cmd.h"

extern const struct command cmd_attach, cmd_run, cmd_record, cmd_top, cmd_leaks, cmd_list, cmd_stats, cmd_diff, cmd_report,
	cmd_show, cmd_convert, cmd_symbolize, cmd_push, cmd_fleet, cmd_doctor, cmd_census, cmd_eject;

/*
 * Opens /dev/null in place of standard descriptors that are closed: otherwise a file or a probe of ours would get
 * their number, and our output. Output to them still fails, and a program that is run does not inherit them.
 */
static void keep_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	/* Ordered as in `allocsnap --help`. */
	static const struct command *const commands[] = {
		&cmd_attach, &cmd_run, &cmd_record, &cmd_top, &cmd_leaks, &cmd_list, &cmd_stats, &cmd_diff, &cmd_report,
		&cmd_show, &cmd_convert, &cmd_symbolize, &cmd_push, &cmd_fleet, &cmd_doctor, &cmd_census, &cmd_eject, NULL,
	};

	keep_standard_descriptors();
	return commands_main(argc, argv, commands);
}
