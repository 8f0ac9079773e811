/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SHARE_H
#define ALLOCSNAP_COLLECT_SHARE_H

/* What one process, or all together, may cost where their probes are one. */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"

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

/*
 * Whether one process holds up the others. Arithmetic; cost: of this process. now_ns: CLOCK_MONOTONIC.
 */
bool share_is_spent(struct share *share, const struct cost_sum *cost, uint64_t now_ns);

#endif
