/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_HELP_H
#define ALLOCSNAP_CLI_CMD_HELP_H

/* Help texts, man pages and completion, made from the rows of cmd.h. What prints help returns EXIT_DONE. */

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

/*
 * Writes man pages, made from the rows of cmd.h, to the folder dir, which exists: allocsnap.1,
 * allocsnap-NAME.1 for each command and allocsnap-NAME-SUBNAME.1 for each subcommand. Returns EXIT_DONE
 * or EXIT_FAILED.
 */
int write_man_pages(const char *dir, const struct command *const *commands);

/*
 * Writes what a shell completes, made from the rows of cmd.h, to stdout. The shell is "bash" or "zsh". `make completion`
 * puts it behind the functions of scripts/completion/, which offer it. What kind of value an option or a command takes
 * follows from the name that help texts give it: FILE, DIR, PID, SNAP and so on. Returns EXIT_DONE or EXIT_REFUSED.
 */
int write_completion(const char *shell, const struct command *const *commands);

#endif
