/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_RUNNING_CHILDREN_H
#define ALLOCSNAP_CLI_RUNNING_CHILDREN_H

/* Children of recorded processes that ran before the recording began: nothing follows them by itself. */

#include <stddef.h>
#include <sys/types.h>

struct capture_options;
struct collector;

/*
 * To be called when the processes are recorded. With --children starts to record their children, the children of these
 * and so on; one that cannot be recorded is named, and is no failure. Otherwise says how many are not recorded. Returns
 * an exit status; logs failures.
 */
int start_running_children(struct collector *collector, const struct capture_options *options, const pid_t *pid, size_t nr);

#endif
