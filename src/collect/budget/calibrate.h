/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_CALIBRATE_H
#define ALLOCSNAP_COLLECT_BUDGET_CALIBRATE_H

/*
 * Measures the cost of a trap on this machine: attaches empty programs to functions of our own, in the way a
 * recording attaches its programs, and reads our thread's CPU time. Takes about 20 ms. Only our own process
 * hits these probes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/bpf_types.h"

struct detacher;
struct probe_way;
struct reason;

/* Zeroed: the costs are not known. */
struct trap_costs {
	uint64_t entry_ns;   /* at an instruction that the kernel emulates */
	uint64_t stepped_ns; /* at an instruction that the kernel single-steps */
	uint64_t return_ns;  /* what the return of a call adds to its entry */
	uint64_t link_ns;    /* what each link of another process at the same probe adds to a hit; 0: not known */
	uint64_t others_nr;  /* how many such links there are now, at most; not a result of calibrate_traps() */
};

/*
 * 0, or a negative errno with a line in *why; *ret is unchanged then. -ENOTSUP on machines other than x86-64.
 * Detaching the probes is left to the detacher. has_others: link_ns is measured, too, which takes 0.3 s more.
 */
int calibrate_traps(const struct probe_way *way, bool has_others, struct detacher *detacher, struct trap_costs *ret,
		    struct reason *why);

/* How much of its CPU time a process spends on being recorded. */

/* Since the recording began, or in a part of that time. */
struct cost_sum {
	uint64_t cpu_ns;  /* user and system time of the whole process */
	uint64_t cost_ns; /* the part of it that recording took: traps by their calibrated cost, and programs */
};

/* Reads the CPU time that a process has used in its whole life. 0 or a negative errno. */
int cpu_time_read(pid_t pid, uint64_t *ret_ns);

/* Returns the cost of a process's traps and programs; 0 when the costs of traps are not known. */
uint64_t cost_of_account(const struct trap_costs *costs, const struct process *account);

#endif
