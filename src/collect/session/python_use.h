/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_PYTHON_USE_H
#define ALLOCSNAP_COLLECT_SESSION_PYTHON_USE_H

/*
 * Processes that run CPython, if the domain python was chosen: what Python allocates is recorded, and not the heap below.
 * Not where several processes share probes, and not without uprobe sessions.
 */

struct collector;
struct reason;
struct target;

/*
 * Looks for a CPython in the files that a target maps, and probes it. 0, also if there is none, or if it cannot be
 * recorded (a note says why), or the error of attaching.
 */
int use_python(struct collector *collector, struct target *target, struct reason *why);

/*
 * Loads the BPF programs, if Python's objects may be recorded: for a program that may become Python. Otherwise use_python()
 * does it. 0 or a negative errno.
 */
int load_for_python(struct collector *collector);

#endif
