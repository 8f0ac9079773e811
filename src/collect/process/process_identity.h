/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROCESS_IDENTITY_H
#define ALLOCSNAP_COLLECT_PROCESS_IDENTITY_H

/* Which process it is, and what snapshots call it. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_identity {
	pid_t pid;
	int pidfd; /* readable when the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	bool is_named; /* snapshots of this program exist under `comm` */
};

#endif
