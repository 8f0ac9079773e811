// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget.h"

#include "base/clock.h"

#define FIRST_RATE 1

#define SOONEST_NS 1000000ULL
#define LATEST_NS 100000000ULL
#define LATEST_WHILE_ON_NS 10000000ULL /* what the process will cost is not known */
#define FINER_AFTER_NS 100000000ULL    /* a rate is kept for at least this time before a finer one */
#define LATELY_NS 2000000000ULL

static int64_t clamp_time(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

static uint64_t lesser_ns(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t greater_ns(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t scale_ns(uint64_t ns, uint64_t part, uint64_t of)
{
	return (unsigned __int128)ns * part / of;
}

/* The credit with which a recording goes on after a pause. */
static int64_t stretch_ns(const struct budget *budget)
{
	int64_t half = budget->share_ns / 2, shortest = budget->terms.least_stretch_ns;

	return half > shortest ? half : shortest;
}

static int64_t most_credit_ns(const struct budget *budget)
{
	return 2 * stretch_ns(budget);
}

void budget_begin(struct budget *budget, const struct budget_terms *terms)
{
	*budget = (struct budget){ .terms = *terms, .share_ns = terms->core_ns * terms->percent / 100 };
	budget->left_ns = terms->percent ? most_credit_ns(budget) : 0;
}

static uint64_t earned_ns(const struct budget_terms *terms, uint64_t passed_ns, uint64_t own_ns)
{
	uint64_t core_ns = scale_ns(passed_ns, terms->core_ns, BUDGET_CORE_NS);

	return scale_ns(terms->is_of_core ? core_ns : lesser_ns(greater_ns(own_ns, core_ns / BUDGET_IDLE_PART), core_ns),
			terms->percent, 100);
}

/* A mean in which what was a second ago counts for a third. */
static void mean_share(struct budget *budget, uint64_t earned_ns, uint64_t passed_ns)
{
	uint64_t weight_ns = lesser_ns(passed_ns, BUDGET_CORE_NS);

	if (passed_ns)
		budget->share_ns += scale_ns(earned_ns, weight_ns, passed_ns) -
				    scale_ns(budget->share_ns, weight_ns, BUDGET_CORE_NS);
}

/*
 * The least credit for which a rate is not exchanged for a coarser one. The coarsest rate has none: after it comes
 * the pause.
 */
static int64_t least_credit_ns(const struct budget *budget)
{
	int halvings = budget->rate ? budget->rate + 2 : 1;

	return budget->rate + 1 < SAMPLE_RATES ? most_credit_ns(budget) >> halvings : INT64_MIN;
}

static void choose_rate(struct budget *budget)
{
	uint32_t before = budget->rate;

	while (!budget->is_spent && budget->left_ns < least_credit_ns(budget))
		budget->rate++;
	if (budget->rate == before && before && budget->left_ns >= most_credit_ns(budget) / 4 * 3 &&
	    budget->now_ns - budget->rate_ns >= FINER_AFTER_NS)
		budget->rate--;
	if (budget->rate != before)
		budget->rate_ns = budget->now_ns;
}

/*
 * A look may be late, as a snapshot can take seconds. Earnings and cost since the last look are then compared with each
 * other, also beyond a full credit. The debt ends at half of what a second gives: after such a time the process comes
 * back within a second, too. Threads tell their cost in parts, so what is left of the CPU time goes up and down: only
 * where it is more than ever is it new.
 */
void budget_update(struct budget *budget, const struct budget_use *use, uint64_t now_ns)
{
	uint64_t passed_ns = budget->now_ns ? now_ns - budget->now_ns : 0;
	uint64_t own_ns = greater_ns(use->own_ns, budget->use.own_ns);
	uint64_t earned = earned_ns(&budget->terms, passed_ns, own_ns - budget->use.own_ns);

	if (!budget->terms.percent)
		return;
	mean_share(budget, earned, passed_ns);
	budget->left_ns += earned - (use->cost_ns - budget->use.cost_ns);
	budget->left_ns = clamp_time(budget->left_ns, -(int64_t)budget->share_ns / 2, most_credit_ns(budget));
	budget->use = (struct budget_use){ .cost_ns = use->cost_ns, .own_ns = own_ns };
	budget->now_ns = now_ns;
	if (budget->left_ns <= 0) {
		budget->is_spent = true;
		budget->spent_ns = budget->rate_ns = now_ns;
		budget->rate = FIRST_RATE; /* the coarser ones did not help */
	} else if (budget->left_ns >= stretch_ns(budget)) {
		budget->is_spent = false;
	}
	choose_rate(budget);
}

bool budget_is_full(const struct budget *budget)
{
	return budget->left_ns >= most_credit_ns(budget);
}

uint64_t budget_wait_ns(const struct budget *budget, unsigned int processors)
{
	int64_t missing_ns = stretch_ns(budget) - budget->left_ns;

	if (!budget->terms.percent)
		return UINT64_MAX;
	if (!budget->is_spent)
		return clamp_time(budget->left_ns / processors, SOONEST_NS, LATEST_WHILE_ON_NS);
	return clamp_time(scale_ns(missing_ns, BUDGET_CORE_NS, budget->share_ns ?: 1), SOONEST_NS, LATEST_NS);
}

bool budget_is_spending(const struct budget *budget, uint64_t now_ns)
{
	return budget->spent_ns && now_ns - budget->spent_ns < LATELY_NS;
}
