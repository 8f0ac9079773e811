/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_HAZARDS_H
#define ALLOCSNAP_COLLECT_PROBE_HAZARDS_H

/*
 * Decides whether return probes could kill a process (uprobe_multi.h explains it): they could if its threads may
 * run on another stack during a call.
 */

#include <sys/types.h>

struct allocsnap_bpf;
struct object;
struct sandbox;
struct reason;

/*
 * 1 with a line that says why; 0; -ESRCH if the process has ended. If it cannot be found out, it counts as a
 * hazard.
 */
int hazard_of_threads(const struct allocsnap_bpf *bpf, pid_t pid, struct reason *ret);

/*
 * 1 with a line if another process traces the system calls of this one, or could: a return probe is a system call
 * (trial_return_call()).
 */
int hazard_of_tracer(pid_t pid, struct reason *ret);

/* 1 with a line, 0, or -ENOMEM. A C library that only offers to switch stacks is no hazard. */
int hazard_of_object(struct sandbox *sandbox, const struct object *object, struct reason *ret);

#endif
