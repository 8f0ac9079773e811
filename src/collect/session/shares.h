/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SHARES_H
#define ALLOCSNAP_COLLECT_SHARES_H

/*
 * Budgets where the probes are everybody's: each process has one, and all together. Whoever has spent its own makes all of
 * them pause, till it has earned enough, has ended, or sleeps: one that uses no CPU time costs nothing, and the others are
 * not to wait for it. Nor are they for what is little to the machine: a hundredth of a processor is free.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"

struct collector;

/* Zeroed: it has not been judged yet. */
struct share {
	struct budget budget;
	uint64_t judged_ns;
	uint64_t forgiven_ns; /* of its cost */
	uint64_t window_ns, window_cpu_ns; /* the last second, or what there is of it: when it began, its CPU time then */
	bool is_asleep; /* it ran for less than a hundredth of the last second */
	bool is_spent;
	bool is_named; /* a note says that the others wait for it */
};

/* What processes cost now, those that have new cost or have spent theirs: of many this is read only here. */
void shares_read_costs(struct collector *collector);

/* Judges all of them, and what they cost together. */
enum budget_order shares_judge(struct collector *collector, const struct cost_sum *together, bool is_paused);

/*
 * Whether one process holds up the others. Arithmetic; cost: of this process. now_ns: CLOCK_MONOTONIC.
 */
bool share_is_spent(struct share *share, const struct cost_sum *cost, uint64_t now_ns);

#endif
