/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_CALM_H
#define ALLOCSNAP_COLLECT_BUDGET_CALM_H

/*
 * For how long no look at the budgets has found one that is spent. Time in which the recorder could not look is no
 * calm: of the time between two looks a second counts at most.
 */

#include <stdbool.h>
#include <stdint.h>

struct calm {
	uint64_t looked_ns; /* when the budgets were looked at last */
	uint64_t ns;	    /* what counts since a budget was spent */
};

/* A budget is spent now. */
void calm_end(struct calm *calm, uint64_t now_ns);

/* Counts a look. Returns whether it has been calm for so long that the budgets will probably hold. */
bool calm_look(struct calm *calm, uint64_t now_ns, bool is_any_spent);

#endif
