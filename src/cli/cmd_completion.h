/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_COMPLETION_H
#define ALLOCSNAP_CLI_CMD_COMPLETION_H

struct command;

/*
 * Writes what a shell completes, made from the rows of cmd.h, to stdout. The shell is "bash" or "zsh". `make completion`
 * puts it behind the functions of scripts/completion/, which offer it. What kind of value an option or a command takes
 * follows from the name that help texts give it: FILE, DIR, PID, SNAP and so on. Returns EXIT_DONE or EXIT_REFUSED.
 */
int write_completion(const char *shell, const struct command *const *commands);

#endif
