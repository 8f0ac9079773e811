/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LIMITS_BUDGET_SHARED_H
#define ALLOCSNAP_COLLECT_LIMITS_BUDGET_SHARED_H

/*
 * Budgets for shared probes: each process has a budget, and all processes together have as much for each core of the
 * machine. A process that spends much is sampled; that makes no difference for the others. If the traps alone cost it
 * more than its budget, probing pauses for all processes, since a shared probe can't be taken from one process alone.
 */

#include <stdbool.h>
#include <stdint.h>

struct collector;
struct targets;
struct trap_costs;

/*
 * Reads the cost of processes that have new cost. In system-wide mode the cost of a process without other news is read
 * only here.
 */
void shares_read_costs(const struct trap_costs *costs, const struct targets *targets);

/* Updates the budgets of all processes, and sets their sampling rates. Returns whether any budget is spent. */
bool shares_judge(struct collector *collector, uint64_t together_ns, uint64_t now_ns);

/* Sets the least rate of all processes. */
void shares_set_rate(struct collector *collector, uint32_t rate);

/* Returns how long to wait before the next look at these budgets. */
uint64_t shares_wait_ns(const struct collector *collector, unsigned int processors);

#endif
