/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_LATE_PROGRAMS_H
#define ALLOCSNAP_COLLECT_PROBE_LATE_PROGRAMS_H

/*
 * BPF programs that few recordings need. The kernel takes some 20 ms to verify one, so they are loaded when the first
 * one of their group is attached: a second time from the same file, with the maps of the programs that are loaded
 * already.
 */

#include "collect/probe/probes.h"

struct bpf_object;
struct bpf_program;

/* Programs that are loaded together. */
enum late_group {
	LATE_RETS,   /* calls whose returns are seen at `ret` instructions */
	LATE_SAMPLE, /* a process's own sampler */
	LATE_PYTHON, /* CPython's allocators */
	LATE_RMAP,   /* pages, by functions of the kernel */
	LATE_PAGES,  /* pages, by page faults */
	LATE_TRACEPOINTS, /* of page faults */
	LATE_GROUP_NR
};

/* Programs that are attached to no probe. Their numbers follow those in enum probe_end. */
enum late_program {
	LATE_PAGE_ADDED = PROBE_END_NR,
	LATE_PAGES_MOVED,
	LATE_PAGE_FAULT,
	LATE_FAULT_IN_USER,
	LATE_FAULT_IN_KERNEL,
	LATE_PAGE_ROOM,
	LATE_PROGRAM_NR
};

/* Zeroed: none is loaded. */
struct late_programs {
	struct bpf_object *object[LATE_GROUP_NR];
};

/* Leaves out a group. Called before the others are loaded. */
void late_programs_leave_out(struct allocsnap_bpf *bpf, enum late_group group);

/*
 * A program of enum probe_end or enum late_program, which it loads if need be; late may be NULL if none was left out. 0 or a
 * negative errno.
 */
int late_programs_find(struct late_programs *late, const struct allocsnap_bpf *bpf, unsigned int nr,
		       const struct bpf_program **ret);

/* Tries whether a program that does nothing can be where this one is to be; of one that has its place by itself this says 0. */
int trial_late_program(unsigned int nr);

void late_programs_release(struct late_programs *late);

#endif
