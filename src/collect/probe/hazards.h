/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_HAZARDS_H
#define ALLOCSNAP_COLLECT_HAZARDS_H

/*
 * Whether return probes could end a process (uprobe_multi.h says how): where its threads may be on
 * another stack while a call is under way.
 */

#include <sys/types.h>

struct allocsnap_bpf;
struct object;
struct parser;
struct reason;

/*
 * 1 with a line that says why; 0; -ESRCH where the process has ended. What cannot be found out
 * is a hazard.
 */
int hazard_of_threads(const struct allocsnap_bpf *bpf, pid_t pid, struct reason *ret);

/*
 * 1 with a line where another process traces this one's system calls, or could: a return probe is one of them
 * (trial_return_call()).
 */
int hazard_of_tracer(pid_t pid, struct reason *ret);

/* 1 with a line, or 0; -ENOMEM. A C library that only offers to switch stacks is none. */
int hazard_of_object(struct parser *parser, const struct object *object, struct reason *ret);

#endif
