/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_DESCENDANTS_H
#define ALLOCSNAP_COLLECT_PROCESS_DESCENDANTS_H

/* The children of processes, their children, and so on, as /proc shows them now. */

#include <stddef.h>
#include <sys/types.h>

struct descendants {
	pid_t *pid; /* a parent before its children */
	size_t pid_nr, pid_alloc;
};

/* Leaves out the processes themselves, the caller, and its descendants. 0 or a negative errno. */
int descendants_find(const pid_t *pid, size_t nr, struct descendants *ret);
void descendants_release(struct descendants *descendants);

#endif
