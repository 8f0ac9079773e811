/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_PAGER_H
#define ALLOCSNAP_CLI_PAGER_H

#include <stdbool.h>

/*
 * A pager for what a command writes to a terminal: $ALLOCSNAP_PAGER, $PAGER or less, which shows what fits on one screen
 * and ends. An empty variable, or "cat", means no pager. Standard error goes through the pager, too, if it is a
 * terminal: otherwise it would write into the pager's screen.
 *
 * Root's pager gets LESSSECURE=1: less then runs no commands and writes no files. If the caller borrows root's rights
 * (sudo, pkexec, doas), the variables do not choose the pager: it is less, or none.
 */

/*
 * Begins to page, if standard output is a terminal. Call it when everything is computed and nothing was written yet: it
 * also takes the status line away.
 */
void pager_begin(void);

/* Nothing is paged: --no-pager. */
void pager_forbid(void);

/* Whether the pager was ended by its user, so that a write to standard output fails: that is no failure. */
bool pager_is_on(void);

/*
 * Waits until the user leaves the pager. Standard output and error are as before. False, reported: the pager could not
 * be run, and the output was not seen.
 */
bool pager_end(void);

#endif
