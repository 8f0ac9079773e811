/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_HELP_H
#define ALLOCSNAP_CLI_CMD_HELP_H

/* Help texts, made from the rows of cmd.h. These functions print to stdout and return EXIT_DONE. */

#include <stdbool.h>

struct command;

#define PROGRAM_SUMMARY \
	"Shows which code allocated the live memory of a native process: like Python's tracemalloc, " \
	"but for any running program."
#define PROGRAM_EXAMPLE "sudo allocsnap attach 4711"

int print_program_help(const struct command *const *commands);

/* All options, or the first of those with ranks, if the command has such (struct option_row). */
int print_command_help(const struct command *command, bool all);

int print_subcommands_help(const struct command *command);
int print_version(void);

#endif
