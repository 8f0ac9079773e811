// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/budget.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"

/* ---- pause gaps ---- */

void pausing_release(struct pausing *pausing)
{
	free(pausing->gap);
	*pausing = (struct pausing){};
}

/*
 * Drops the older half when GAPS_MAX is reached: readers need the last gap and the sums, which are kept apart.
 */
int pausing_make_room(struct pausing *pausing)
{
	if (pausing->gap_nr == GAPS_MAX) {
		pausing->gap_nr /= 2;
		memmove(pausing->gap, pausing->gap + GAPS_MAX - pausing->gap_nr,
			pausing->gap_nr * sizeof(*pausing->gap));
	}
	return array_reserve(&pausing->gap, &pausing->gap_alloc, pausing->gap_nr + 1);
}

void pausing_close_gap(struct pausing *pausing, uint64_t now_ns)
{
	const struct gap gap = { pausing->open_ns, now_ns, pausing->length_ns };

	pausing->gap[pausing->gap_nr++] = gap; /* pausing_make_room() reserved it */
	pausing->nr++;
	pausing->length_ns += gap.end_ns - gap.start_ns;
	pausing->open_ns = 0;
}

int pausing_add_past(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns)
{
	struct gap *last = pausing->gap_nr ? &pausing->gap[pausing->gap_nr - 1] : NULL;
	int err;

	if (pausing->open_ns)
		return 0;
	if (last && last->end_ns >= start_ns) {
		pausing->length_ns += end_ns - last->end_ns;
		last->end_ns = end_ns;
		return 0;
	}
	err = pausing_make_room(pausing);
	if (err)
		return err;
	pausing->open_ns = start_ns;
	pausing_close_gap(pausing, end_ns);
	return 0;
}

/* How many gaps begin before a time. */
static size_t gaps_before(const struct pausing *pausing, uint64_t time_ns)
{
	size_t low = 0, high = pausing->gap_nr;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (pausing->gap[mid].start_ns < time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The length of the first `nr` gaps and of those before gap[], up to a time. */
static uint64_t length_until(const struct pausing *pausing, size_t nr, uint64_t time_ns)
{
	const struct gap *last = nr ? &pausing->gap[nr - 1] : NULL;

	if (!last)
		return 0;
	return last->before_ns + (last->end_ns < time_ns ? last->end_ns : time_ns) - last->start_ns;
}

/*
 * A snapshot may be described after the next pause began, but its data was read before: later gaps do not
 * count.
 */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns)
{
	size_t until_start = gaps_before(pausing, start_ns), until_now = gaps_before(pausing, now_ns);
	struct gaps_sum sum = { .nr = until_now - until_start };

	if (start_ns >= now_ns)
		return (struct gaps_sum){};
	sum.length_ns = length_until(pausing, until_now, now_ns) - length_until(pausing, until_start, start_ns);
	if (!until_start)
		sum.nr += pausing->nr - pausing->gap_nr;
	else
		sum.nr += pausing->gap[until_start - 1].end_ns > start_ns;
	if (pausing->open_ns && pausing->open_ns < now_ns) {
		sum.nr++;
		sum.length_ns += now_ns - (pausing->open_ns > start_ns ? pausing->open_ns : start_ns);
	}
	return sum;
}

/* ---- budget ---- */

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
