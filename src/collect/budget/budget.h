/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_BUDGET_H
#define ALLOCSNAP_COLLECT_BUDGET_BUDGET_H

/*
 * Decides how much of a process may be recorded. This is arithmetic only: the caller reads the clocks.
 *
 * Recording a process may take `percent` of one core, in wall-clock time. A credit grows at that rate, up to what one
 * second gives, and the cost is taken from it. So a burst of a moment is free, and a burst that is over is forgotten
 * after a second, however little the process does since. The credit that is left decides:
 *
 *	full		every block is recorded, or --sample as it was asked for
 *	below 1/2	samples; below 1/8 and 1/16 samples by the coarser rates
 *	none		the recording pauses, until half of the credit is there again; then it samples by the first rate
 *
 * At 3/4 a finer rate is tried. So a process whose samples fit into the budget never pauses.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

#define BUDGET_WINDOW_NS 1000000000ULL /* the credit is at most what this time gives */

/* Zeroed: there is no budget. */
struct budget {
	uint64_t percent;	   /* of one core */
	uint64_t least_stretch_ns; /* the least cost that makes it worth to go on after a pause */
	int64_t left_ns;	   /* the credit, or below 0 the debt */
	uint64_t cost_ns, now_ns;  /* at the last update */
	uint64_t rate_ns;	   /* when the rate changed */
	uint64_t spent_ns;	   /* when the credit was last used up; 0: never */
	uint32_t rate;		   /* the sampling rate that the credit allows, below SAMPLE_RATES */
	bool is_spent;
};

/* Begins with full credit. */
void budget_begin(struct budget *budget, uint64_t percent, uint64_t least_stretch_ns);

/* cost_ns: since the recording began; now_ns: from a clock that never goes back. */
void budget_update(struct budget *budget, uint64_t cost_ns, uint64_t now_ns);

/*
 * Returns how long to wait before the next update: until the budget could be spent, or enough of it could be there
 * again, if so many processors spend at once. 1 ms to 100 ms; UINT64_MAX without a budget.
 */
uint64_t budget_wait_ns(const struct budget *budget, unsigned int processors);

/* Whether the process has paused lately: then it cannot go unwatched for long, unless it is paused. */
bool budget_is_spending(const struct budget *budget, uint64_t now_ns);

#endif
