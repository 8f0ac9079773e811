/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_EXITED_TOTALS_H
#define ALLOCSNAP_COLLECT_TARGET_EXITED_TOTALS_H

/* Sums of counters and losses of processes and programs that are gone. */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct target;

/* Sums of accounting that no longer exists. Zeroed: nothing. */
struct gone {
	uint64_t processes;
	uint64_t allocations, frees;
	uint64_t cpu_ns, cost_ns;
	uint64_t loss[LOSS_NR];
};

/* Adds the accounting of an image: its process has called exec, or is no longer traced. */
void gone_add(struct gone *gone, const struct process *books);

/*
 * Losses that were found while snapshots of a process were made. Some of these losses (of tracebacks, for
 * example) are found again for each snapshot: so only the growth from one snapshot to the next is summed.
 * Zeroed: no snapshot yet.
 */
struct found_losses {
	uint64_t exec_cnt; /* of the program that `last` is about */
	uint64_t last[LOSS_NR];
	uint64_t sum[LOSS_NR];
};

void found_losses_add(struct found_losses *found, uint64_t exec_cnt, const uint64_t loss[LOSS_NR]);

/* Adds a process that is no longer traced: gone_add(), plus its found losses. */
void gone_add_target(struct gone *gone, const struct target *target);

/*
 * For a process that has ended and of which nothing was counted: whether that proves nothing, because its
 * mappings were not seen or its files could no longer be opened.
 */
bool target_is_unprobed(const struct target *target);

#endif
