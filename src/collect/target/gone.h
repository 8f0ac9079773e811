/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_GONE_H
#define ALLOCSNAP_COLLECT_GONE_H

/* What is still known of processes and programs that have gone: sums of their counters and losses. */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct target;

/* What was counted in books that are there no longer. Zeroed: nothing. */
struct gone {
	uint64_t processes;
	uint64_t allocations, frees;
	uint64_t cpu_ns, cost_ns;
	uint64_t loss[LOSS_NR];
};

/* Of an image: its process has called exec, or is traced no longer. */
void gone_add(struct gone *gone, const struct process *books);

/*
 * What was found missing when snapshots of a process were made. Some of it is so of each of them anew, as of
 * their tracebacks: what it has grown by from one to the next is summed up. Zeroed: there was none yet.
 */
struct found_losses {
	uint64_t exec_cnt; /* of the program that `last` is of */
	uint64_t last[LOSS_NR];
	uint64_t sum[LOSS_NR];
};

void found_losses_add(struct found_losses *found, uint64_t exec_cnt, const uint64_t loss[LOSS_NR]);

/* Of a process that is traced no longer: gone_add(), and what was found. */
void gone_add_target(struct gone *gone, const struct target *target);

/*
 * Of one that has ended, and of which nothing was counted: whether that says nothing, since what it mapped
 * was not seen or could not be opened any more.
 */
bool health_is_unprobed(const struct target *target);

#endif
