/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_CMD_MAN_H
#define ALLOCSNAP_CLI_CMD_MAN_H

struct command;

/*
 * Writes man pages, made from the rows of cmd.h, to the folder dir, which exists: allocsnap.1,
 * allocsnap-NAME.1 for each command and allocsnap-NAME-SUBNAME.1 for each subcommand. Returns EXIT_DONE
 * or EXIT_FAILED.
 */
int write_man_pages(const char *dir, const struct command *const *commands);

#endif
