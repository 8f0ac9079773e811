// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget.h"

#define FIRST_RATE 1

#define SOONEST_NS 1000000ULL
#define LATEST_NS 100000000ULL
#define LATEST_WHILE_ON_NS 10000000ULL /* what the process will cost is not known */
#define FINER_AFTER_NS 100000000ULL    /* a rate is kept for at least this time before a finer one */
#define LATELY_NS 2000000000ULL
#define LONGEST_NS 1000000000000ULL /* a longer time gives no more credit; the product with percent fits */

static int64_t clamp_time(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

static int64_t window_credit_ns(const struct budget *budget)
{
	return BUDGET_WINDOW_NS / 100 * budget->percent;
}

/* The credit with which a recording goes on after a pause. */
static int64_t stretch_ns(const struct budget *budget)
{
	int64_t half = window_credit_ns(budget) / 2, least = budget->least_stretch_ns;

	return half > least ? half : least;
}

static int64_t most_credit_ns(const struct budget *budget)
{
	return 2 * stretch_ns(budget);
}

void budget_begin(struct budget *budget, uint64_t percent, uint64_t least_stretch_ns)
{
	*budget = (struct budget){ .percent = percent, .least_stretch_ns = least_stretch_ns };
	budget->left_ns = percent ? most_credit_ns(budget) : 0;
}

static uint64_t earned_ns(const struct budget *budget, uint64_t passed_ns)
{
	return (passed_ns < LONGEST_NS ? passed_ns : LONGEST_NS) * budget->percent / 100;
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
 * other, also beyond a full credit. The debt ends at half of the window's credit: after such a time the process comes
 * back within a second, too.
 */
void budget_update(struct budget *budget, uint64_t cost_ns, uint64_t now_ns)
{
	uint64_t passed_ns = budget->now_ns ? now_ns - budget->now_ns : 0;
	int64_t most = most_credit_ns(budget);

	if (!budget->percent)
		return;
	budget->left_ns += earned_ns(budget, passed_ns) - (cost_ns - budget->cost_ns);
	budget->left_ns = clamp_time(budget->left_ns, -window_credit_ns(budget) / 2, most);
	budget->cost_ns = cost_ns;
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

uint64_t budget_wait_ns(const struct budget *budget, unsigned int processors)
{
	int64_t missing_ns = stretch_ns(budget) - budget->left_ns;

	if (!budget->percent)
		return UINT64_MAX;
	if (!budget->is_spent)
		return clamp_time(budget->left_ns / processors, SOONEST_NS, LATEST_WHILE_ON_NS);
	return clamp_time(missing_ns * 100 / (int64_t)budget->percent, SOONEST_NS, LATEST_NS);
}

bool budget_is_spending(const struct budget *budget, uint64_t now_ns)
{
	return budget->spent_ns && now_ns - budget->spent_ns < LATELY_NS;
}
