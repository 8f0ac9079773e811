/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_H
#define ALLOCSNAP_COLLECT_BUDGET_H

/*
 * Whether a recording may go on: arithmetic only, whoever reads the clocks.
 *
 * What recording may cost grows with the program's own CPU time, that without the cost: percent of it,
 * and a little to begin with. Once that is spent the recording pauses, and goes on when enough
 * has been earned for a stretch that is worth the while: an eighth of all that was earned so
 * far, so that stretches of a short program are short, and little is left unspent at its end.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/cost.h"

#define BUDGET_CREDIT_NS 10000000 /* to begin with */

/* Zeroed: there is no budget. */
struct budget {
	uint32_t percent;	   /* of the program's own CPU time */
	uint64_t least_stretch_ns; /* of cost */
	struct cost_sum judged;	   /* at the last time */
	uint64_t judged_ns;
	uint64_t on_own_ns, on_cost_ns, on_ns; /* lately, while it did not pause; on_ns: by the clock */
};

enum budget_order {
	BUDGET_AS_IT_IS,
	BUDGET_PAUSE,
	BUDGET_RESUME,
};

/* sum: since the recording began; now_ns: of a clock that never goes back. */
enum budget_order budget_judge(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns,
			       bool is_paused);

/* What budget_judge() does for budget_is_spending(), where something else judges. */
void budget_note(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns,
		 bool is_paused);

/* What is left to be spent; negative: what was spent too much. */
int64_t budget_left_ns(const struct budget *budget, const struct cost_sum *sum);

/*
 * How soon to look again, where so many processors can spend or earn at once: when the budget could be
 * spent, or enough could be earned; at least a millisecond. UINT64_MAX: there is no budget.
 */
uint64_t budget_wait_ns(const struct budget *budget, const struct cost_sum *sum, bool is_paused,
			unsigned int processors);

/* It has lately spent more than it has earned: while it is not paused it can't be left alone for long. */
bool budget_is_spending(const struct budget *budget);

#endif
