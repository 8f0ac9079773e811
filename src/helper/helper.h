/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_HELPER_HELPER_H
#define ALLOCSNAP_HELPER_HELPER_H

/*
 * Helpers for a forked process that does other work than its parent, without running another
 * program.
 */

#include <stdbool.h>

#define CHILD_FD 3 /* the only other open descriptor; 0, 1 and 2 are /dev/null */

/* Closes all descriptors except fd, which becomes CHILD_FD. 0 or a negative errno. */
int child_keep_only(int fd);

/*
 * Ignores the signals that a terminal or a service manager sends to the whole group: the parent
 * handles them. Other signals get their default action. No signal is blocked afterwards.
 */
void child_ignore_signals(void);

/*
 * Waits until there is something to receive at CHILD_FD. False: the parent, whose pidfd this is,
 * has ended. This checks the pidfd because other children of the parent may keep its end of the
 * socket open.
 */
bool child_has_order(int parent);

/*
 * Changes the command line that ps shows, which is otherwise the parent's. The text is cut to its
 * room.
 */
void child_show_as(const char *text);

#endif
