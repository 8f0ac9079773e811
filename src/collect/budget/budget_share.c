// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget_share.h"

#include "base/clock.h"

#define SMALL_PERCENT 1 /* of one CPU: a process below this never makes others wait */

/* Forgives at most what was spent: a process cannot save it up. */
static void forgive_small_cost(struct share *share, const struct cost_sum *cost, uint64_t passed_ns)
{
	share->forgiven_ns += passed_ns * SMALL_PERCENT / 100;
	if (share->forgiven_ns > cost->cost_ns)
		share->forgiven_ns = cost->cost_ns;
}

/* Restarts the window each second, and as soon as the process is known to run. */
static bool share_check_asleep(struct share *share, const struct cost_sum *cost, uint64_t now_ns)
{
	bool runs = cost->cpu_ns - share->window_cpu_ns > SECOND_NS * SMALL_PERCENT / 100;

	if (!runs && share->window_ns && now_ns - share->window_ns < SECOND_NS)
		return share->is_asleep;
	share->is_asleep = !runs && share->window_ns;
	share->window_ns = now_ns;
	share->window_cpu_ns = cost->cpu_ns;
	return share->is_asleep;
}

bool share_is_spent(struct share *share, const struct cost_sum *cost, uint64_t now_ns)
{
	uint64_t passed_ns = share->judged_ns ? now_ns - share->judged_ns : 0;
	int64_t left_ns;

	forgive_small_cost(share, cost, passed_ns);
	left_ns = budget_left_ns(&share->budget, cost) + (int64_t)share->forgiven_ns;
	if (left_ns <= 0)
		share->is_spent = true;
	if (left_ns >= (int64_t)share->budget.least_stretch_ns)
		share->is_spent = false;
	share->judged_ns = now_ns;
	return !share_check_asleep(share, cost, now_ns) && share->is_spent;
}
