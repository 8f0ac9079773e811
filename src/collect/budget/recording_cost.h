/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_RECORDING_COST_H
#define ALLOCSNAP_COLLECT_BUDGET_RECORDING_COST_H

/* How much of its CPU time a process spends on being recorded. */

#include <stdint.h>
#include <sys/types.h>

#include "shared/bpf_types.h"
#include "collect/budget/calibrate.h"

/* Since the recording began, or in a part of that time. */
struct cost_sum {
	uint64_t cpu_ns;  /* user and system time of the whole process */
	uint64_t cost_ns; /* the part of it that recording took: traps by their calibrated cost, and programs */
};

/* Reads the CPU time that a process has used in its whole life. 0 or a negative errno. */
int cpu_time_read(pid_t pid, uint64_t *ret_ns);

/* Returns the cost of a process's traps and programs; 0 when the costs of traps are not known. */
uint64_t cost_of_books(const struct trap_costs *costs, const struct process *books);

#endif
