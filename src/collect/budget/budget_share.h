/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_BUDGET_SHARE_H
#define ALLOCSNAP_COLLECT_BUDGET_BUDGET_SHARE_H

/* The budget of one process, or of all together, when they share their probes. */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"

/* Zeroed: not judged yet. */
struct share {
	struct budget budget;
	uint64_t judged_ns;
	uint64_t forgiven_ns; /* part of its cost */
	uint64_t window_ns, window_cpu_ns; /* start of the current second; CPU time at that time */
	bool is_asleep; /* it used less than a hundredth of a CPU in the last second */
	bool is_spent;
	bool is_named; /* a note says that the other processes wait for it */
};

/*
 * Whether one process makes the others pause. Arithmetic only. cost: of this process; now_ns: CLOCK_MONOTONIC.
 */
bool share_is_spent(struct share *share, const struct cost_sum *cost, uint64_t now_ns);

#endif
