/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CHILD_H
#define ALLOCSNAP_BASE_CHILD_H

/* What a process does that has been forked to be something else than its parent, and runs no program. */

#include <stdbool.h>

#define CHILD_FD 3 /* what stays open; 0, 1 and 2 are /dev/null */

/* Keeps no descriptor but fd, as CHILD_FD. 0 or a negative errno. */
int child_keep_only(int fd);

/*
 * Those that a terminal or a service manager sends to all of us are the parent's to answer; the others
 * do what they do by default. None is blocked then.
 */
void child_ignore_signals(void);

/*
 * Waits until there is something to receive at CHILD_FD. False: the parent, whose pidfd this is, has ended. Its end
 * of the socket may live on, in what it has forked.
 */
bool child_has_order(int parent);

/* For ps, which else shows what the parent was started with: as much as there is room for in its place. */
void child_show_as(const char *text);

#endif
