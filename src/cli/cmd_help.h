/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CMD_HELP_H
#define ALLOCSNAP_CMD_HELP_H

/* Help texts, made from the rows of cmd.h. On stdout; they return EXIT_DONE. */

struct command;

int print_program_help(const struct command *const *commands);
int print_command_help(const struct command *command);
int print_subcommands_help(const struct command *command);
int print_version(void);

#endif
