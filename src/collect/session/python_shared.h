/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_PYTHON_SHARED_H
#define ALLOCSNAP_COLLECT_SESSION_PYTHON_SHARED_H

/*
 * Python's view in recordings by rules. The probes of the heap are shared there, but those at a CPython belong to one
 * process each: other processes that run the same file do not meet them. So the view of a process begins some ms after
 * its exec or fork, when the loader has heard of it; the time until then is a gap.
 *
 * The process still meets the shared probes of the heap, which do nothing for it (heap_is_hidden()). What they have
 * recorded before is forgotten. A forked child of such a process begins so in the kernel.
 */

#include <stdbool.h>
#include <stdint.h>

struct collector;
struct target;

#define PYTHONS_MOST 128 /* processes at once: a hit of a probe passes the links of all of them */

/* Whether the probes of a target's CPython are its own while those of the heap are shared. */
bool python_is_beside(const struct target *target);

/* Whether its view may begin: not for one whose heap is in a snapshot of the same program already. */
bool python_view_may_begin(const struct collector *collector, const struct target *target);

/* Before the probes are placed: from now on its heap is not recorded, and older blocks are forgotten. 0 or a negative errno. */
int python_view_begin(struct collector *collector, struct target *target);

/* When those in a file are placed. The time until the first ones is a gap. 0 or -ENOMEM. */
int python_view_placed(struct target *target, uint32_t object);

/* There will be none: its heap is recorded from now on. */
void python_view_refuse(struct collector *collector, struct target *target);

/* Places its probes again after a pause. 0, also if the process has ended, or a negative errno: they are still paused. */
int python_probes_resume(struct collector *collector, struct target *target);

/* It has ended, or runs another program: its own probes go. */
void leave_python(struct collector *collector, struct target *target);

/* How many running processes have such probes. */
unsigned int count_pythons(const struct collector *collector);

#endif
