// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget.h"

#define STRETCHES 8
#define LONGEST_STRETCH_NS 500000000ULL

#define SOONEST_NS 1000000ULL
#define LATEST_NS 100000000ULL
#define LATEST_WHILE_ON_NS 10000000ULL /* the cost of a stretch is not known before it has run */

static uint64_t clamp_time(uint64_t value, uint64_t least, uint64_t most)
{
	return value < least ? least : value > most ? most : value;
}

static uint64_t subtract_or_zero(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

/* own_ns() is 0 then: an estimated cost can exceed the CPU time that it is a part of. */
static uint64_t own_ns(const struct cost_sum *sum)
{
	return subtract_or_zero(sum->cpu_ns, sum->cost_ns);
}

static uint64_t earned_ns(const struct budget *budget, const struct cost_sum *sum)
{
	return BUDGET_CREDIT_NS + own_ns(sum) / 100 * budget->percent;
}

int64_t budget_left_ns(const struct budget *budget, const struct cost_sum *sum)
{
	return earned_ns(budget, sum) - sum->cost_ns;
}

static int64_t stretch_ns(const struct budget *budget, const struct cost_sum *sum)
{
	uint64_t most = budget->least_stretch_ns > LONGEST_STRETCH_NS ? budget->least_stretch_ns :
									LONGEST_STRETCH_NS;

	return clamp_time(earned_ns(budget, sum) / STRETCHES, budget->least_stretch_ns, most);
}

#define LATELY_NS 200000000ULL

/*
 * Sums the cost while the recording is not paused. Older cost counts less, also when the process has slept
 * since.
 */
static void note_while_on(struct budget *budget, const struct cost_sum *sum, uint64_t passed_ns)
{
	budget->on_cost_ns += sum->cost_ns - budget->judged.cost_ns;
	budget->on_own_ns += subtract_or_zero(own_ns(sum), own_ns(&budget->judged));
	budget->on_ns += passed_ns;
	if (budget->on_cost_ns + budget->on_own_ns < LATELY_NS && budget->on_ns < LATELY_NS)
		return;
	budget->on_cost_ns /= 2;
	budget->on_own_ns /= 2;
	budget->on_ns /= 2;
}

void budget_note(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns, bool is_paused)
{
	if (!is_paused)
		note_while_on(budget, sum, budget->judged_ns ? now_ns - budget->judged_ns : 0);
	budget->judged = *sum;
	budget->judged_ns = now_ns;
}

enum budget_order budget_judge(struct budget *budget, const struct cost_sum *sum, uint64_t now_ns,
			       bool is_paused)
{
	int64_t left = budget_left_ns(budget, sum);

	if (!budget->percent)
		return BUDGET_AS_IT_IS;
	budget_note(budget, sum, now_ns, is_paused);
	if (!is_paused)
		return left <= 0 ? BUDGET_PAUSE : BUDGET_AS_IT_IS;
	return left >= stretch_ns(budget, sum) ? BUDGET_RESUME : BUDGET_AS_IT_IS;
}

uint64_t budget_wait_ns(const struct budget *budget, const struct cost_sum *sum, bool is_paused,
			unsigned int processors)
{
	int64_t left = budget_left_ns(budget, sum), missing = stretch_ns(budget, sum) - left;

	if (!budget->percent)
		return UINT64_MAX;
	if (!is_paused)
		return clamp_time(left > 0 ? left / processors : 0, SOONEST_NS, LATEST_WHILE_ON_NS);
	return clamp_time(missing > 0 ? (uint64_t)missing * 100 / budget->percent / processors : 0,
			  SOONEST_NS, LATEST_NS);
}

bool budget_is_spending(const struct budget *budget)
{
	return budget->on_cost_ns > BUDGET_CREDIT_NS / 2 &&
	       budget->on_cost_ns * 100 > budget->on_own_ns * budget->percent;
}
