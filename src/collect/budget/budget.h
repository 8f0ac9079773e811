/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_BUDGET_H
#define ALLOCSNAP_COLLECT_BUDGET_BUDGET_H

/*
 * Decides whether a recording may go on. This is arithmetic only: the caller reads the clocks.
 *
 * The allowed cost grows with the program's own CPU time (CPU time without the cost): `percent` of it, plus a
 * small credit at the start. When the credit and the earnings are spent, the recording pauses. It resumes when
 * enough has been earned for a stretch that is worth it: an eighth of everything earned so far. So the
 * stretches of a short program are short, and little is left unspent at its end.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/recording_cost.h"

#define BUDGET_CREDIT_NS 10000000 /* the credit at the start */

/* Zeroed: there is no budget. */
struct budget {
	uint32_t percent;	   /* of the program's own CPU time */
	uint64_t least_stretch_ns; /* in ns of cost */
	struct cost_sum judged;	   /* the sums at the last call of budget_judge() or budget_note() */
	uint64_t judged_ns;
	uint64_t on_own_ns, on_cost_ns, on_ns; /* recent, while not paused; on_ns: wall-clock time */
};

enum budget_order {
	BUDGET_AS_IT_IS,
	BUDGET_PAUSE,
	BUDGET_RESUME,
};

/* sum: since the recording began; now_ns: from a clock that never goes back. */
enum budget_order budget_judge(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns,
			       bool is_paused);

/*
 * Updates the state that budget_is_spending() reads, as budget_judge() does; for a caller that judges in
 * another way.
 */
void budget_note(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns,
		 bool is_paused);

/* Returns the cost that may still be spent; negative when too much was spent. */
int64_t budget_left_ns(const struct budget *budget, const struct cost_sum *sum);

/*
 * Returns how long to wait before the next look: until the budget could be spent, or enough could be earned, if
 * so many processors spend or earn at once. At least a millisecond; UINT64_MAX without a budget.
 */
uint64_t budget_wait_ns(const struct budget *budget, const struct cost_sum *sum, bool is_paused,
			unsigned int processors);

/*
 * Whether the process has recently spent more than it earned. It cannot go unwatched for long then, unless it
 * is paused.
 */
bool budget_is_spending(const struct budget *budget);

#endif
