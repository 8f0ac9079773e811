// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget, with simulated clocks. */
#include <criterion/criterion.h>

#include "collect/budget/budget.h"
#include "collect/budget/recording_cost.h"
#include "collect/budget/budget_share.h"

#define MS 1000000ULL

/* A program that one trap-ridden second makes so many of its own slower. */
struct program {
	struct budget budget;
	struct cost_sum sum;
	double slowdown; /* of its own time while it is recorded: cost / own */
	bool is_paused;
	unsigned int pauses;
	uint64_t own_on_ns, own_ns, now_ns;
};

/* Its own time goes on by so much; looked at as often as the budget wants to, and no sooner than each ms. */
static void go_on(struct program *program, uint64_t own_ns)
{
	uint64_t end_ns = program->own_ns + own_ns;

	while (program->own_ns < end_ns) {
		uint64_t wait_ns = budget_wait_ns(&program->budget, &program->sum,
						  program->is_paused, 1);
		uint64_t own = program->is_paused ? wait_ns : wait_ns / (1 + program->slowdown);
		uint64_t cost = program->is_paused ? 0 : own * program->slowdown;
		enum budget_order order;

		program->now_ns += wait_ns;
		program->own_ns += own;
		program->own_on_ns += program->is_paused ? 0 : own;
		program->sum.cost_ns += cost;
		program->sum.cpu_ns += own + cost;
		order = budget_judge(&program->budget, &program->sum, program->now_ns,
				     program->is_paused);
		cr_assert(order != (program->is_paused ? BUDGET_PAUSE : BUDGET_RESUME));
		program->pauses += order == BUDGET_PAUSE;
		if (order != BUDGET_AS_IT_IS)
			program->is_paused = order == BUDGET_PAUSE;
	}
}

static double overhead(const struct program *program)
{
	return (double)program->sum.cost_ns / program->own_ns;
}

static struct program program_with(uint32_t percent, double slowdown)
{
	return (struct program){
		.budget = { .percent = percent, .least_stretch_ns = 8 * MS },
		.slowdown = slowdown,
	};
}

Test(budget, is_kept_for_programs_of_any_length)
{
	static const double slowdown[] = { 0.3, 1, 5, 50 };

	for (size_t i = 0; i < sizeof(slowdown) / sizeof(*slowdown); i++)
		for (uint64_t ms = 500; ms < 100000; ms *= 3) {
			struct program program = program_with(20, slowdown[i]);

			go_on(&program, ms * MS);
			cr_expect(overhead(&program) < 0.20 * 1.02 + 20.0 / ms,
				  "%f times as slow for %lu ms: %f", slowdown[i], ms,
				  overhead(&program));
		}
}

Test(budget, is_used_up_by_an_expensive_program)
{
	for (uint64_t ms = 2000; ms < 100000; ms *= 3) {
		struct program program = program_with(20, 5);

		go_on(&program, ms * MS);
		cr_expect(overhead(&program) > 0.20 * 0.8, "for %lu ms: %f", ms,
			  overhead(&program));
	}
}

Test(budget, of_a_cheap_program_is_never_exceeded)
{
	struct program program = program_with(20, 0.1);

	go_on(&program, 100000 * MS);
	cr_expect_eq(program.pauses, 0);
	cr_expect_not(budget_is_spending(&program.budget));
}

Test(budget, is_saved_up_in_cheap_times)
{
	struct program program = program_with(20, 0.05);

	go_on(&program, 10000 * MS);
	program.slowdown = 5;
	go_on(&program, 200 * MS);
	cr_expect_eq(program.pauses, 0, "1500 ms were earned, 1000 spent");
	cr_expect(budget_is_spending(&program.budget));
	go_on(&program, 1000 * MS);
	cr_expect_gt(program.pauses, 0);
	cr_expect(overhead(&program) < 0.21);
}

/* A pass need not pause it: nothing is spent meanwhile. */
Test(budget, of_a_sleeping_process_is_not_being_spent)
{
	struct program program = program_with(20, 5);

	go_on(&program, 1000 * MS);
	while (program.is_paused)
		go_on(&program, MS);
	cr_assert(budget_is_spending(&program.budget));
	for (unsigned int i = 0; i < 40; i++)
		budget_judge(&program.budget, &program.sum, program.now_ns += 50 * MS, false);
	cr_assert_not(budget_is_spending(&program.budget));
}

Test(budget, of_an_idle_process_changes_nothing)
{
	struct budget budget = { .percent = 20, .least_stretch_ns = 8 * MS };
	struct cost_sum none = {};

	cr_expect_eq(budget_judge(&budget, &none, MS, false), BUDGET_AS_IT_IS);
	cr_expect_eq(budget_judge(&budget, &(struct cost_sum){ 11 * MS, 11 * MS }, 2 * MS, false),
		     BUDGET_PAUSE);
	cr_expect_eq(budget_judge(&budget, &(struct cost_sum){ 11 * MS, 11 * MS }, 3 * MS, true),
		     BUDGET_AS_IT_IS);
}

/* An estimate may be wrong. */
Test(budget, accepts_a_cost_above_the_cpu_time)
{
	struct budget budget = { .percent = 20, .least_stretch_ns = 8 * MS };
	const struct cost_sum sum = { 100 * MS, 150 * MS };

	cr_expect_eq(budget_judge(&budget, &sum, MS, false), BUDGET_PAUSE);
	cr_expect_eq(budget_judge(&budget, &sum, 2 * MS, true), BUDGET_AS_IT_IS);
	cr_expect(budget_wait_ns(&budget, &sum, true, 2) <= 100 * MS);
	cr_expect(budget_wait_ns(&budget, &sum, false, 2) >= MS);
}

Test(budget, that_is_unset_never_pauses)
{
	struct budget none = {};
	const struct cost_sum sum = { 100 * MS, 90 * MS };

	cr_expect_eq(budget_judge(&none, &sum, MS, false), BUDGET_AS_IT_IS);
	cr_expect_not(budget_is_spending(&none));
	cr_expect_eq(budget_wait_ns(&none, &sum, false, 2), UINT64_MAX);
	cr_expect_eq(budget_wait_ns(&none, &sum, true, 2), UINT64_MAX);
}

Test(cost, is_the_sum_of_traps_and_program_time)
{
	const struct trap_costs costs = { .entry_ns = 700, .stepped_ns = 9000, .return_ns = 500 };
	struct process books = {};

	books.counter[COUNTER_entry_traps] = 10;
	books.counter[COUNTER_stepped_traps] = 2;
	books.counter[COUNTER_return_traps] = 3;
	books.counter[COUNTER_program_ns] = 12345;
	cr_expect_eq(cost_of_books(&costs, &books), 7000 + 18000 + 1500 + 12345);
	cr_expect_eq(cost_of_books(&(struct trap_costs){}, &books), 0, "not known");
	cr_expect_eq(cost_share(&(struct cost_sum){ 1000, 340 }), 34);
	cr_expect_eq(cost_share(&(struct cost_sum){}), 0);
	cr_expect_eq(cost_share(&(struct cost_sum){ 10, 20 }), 100);
}

/* ---- the share of one process among system-wide probes ---- */

#define SECOND (1000 * MS)

static struct share spent_share(struct cost_sum *sum)
{
	struct share share = { .budget = { .percent = 20, .least_stretch_ns = 8 * MS } };

	*sum = (struct cost_sum){ .cpu_ns = 200 * MS, .cost_ns = 100 * MS };
	cr_assert(share_is_spent(&share, sum, SECOND));
	return share;
}

/* How long one that does so much each 50 ms while it pauses holds up the others; ms, a minute at most. */
static uint64_t waits(uint64_t own_ns)
{
	struct cost_sum sum;
	struct share share = spent_share(&sum);
	uint64_t now = SECOND;

	while (share_is_spent(&share, &sum, now) && now < 61 * SECOND) {
		now += 50 * MS;
		sum.cpu_ns += own_ns;
	}
	return (now - SECOND) / MS;
}

Test(budget, of_one_process_is_exceeded_until_it_has_earned_it_back)
{
	uint64_t waited = waits(50 * MS); /* 70 ms too much, and 8 to go on with: 10.5 each */

	cr_assert_eq(waited, 50 * 8, "it waited for %lu ms", waited);
	waited = waits(5 * MS);
	cr_assert_eq(waited, 50 * 52, "it waited for %lu ms", waited);
}

Test(budget, of_a_process_that_hardly_runs_does_not_delay_others)
{
	static const uint64_t own_ns[] = { 0, MS / 50, MS / 4, MS / 2 - MS / 25 };

	for (size_t i = 0; i < sizeof(own_ns) / sizeof(own_ns[0]); i++)
		cr_expect_leq(waits(own_ns[i]), 2000, "of %lu us in 50 ms", own_ns[i] / 1000);
}

Test(budget, of_a_process_that_starts_to_run_again_is_exceeded_again)
{
	struct cost_sum sum;
	struct share share = spent_share(&sum);

	for (uint64_t now = SECOND; now < 4 * SECOND; now += 50 * MS)
		share_is_spent(&share, &sum, now);
	cr_assert_not(share_is_spent(&share, &sum, 4 * SECOND));
	sum.cpu_ns += 40 * MS;
	sum.cost_ns += 20 * MS;
	cr_assert(share_is_spent(&share, &sum, 4 * SECOND + 50 * MS));
}

Test(budget, of_a_process_below_one_percent_of_a_cpu_is_never_exceeded)
{
	struct share share = { .budget = { .percent = 20, .least_stretch_ns = 8 * MS } };
	struct cost_sum sum = {};

	for (uint64_t now = SECOND; now < 1000 * SECOND; now += 50 * MS) {
		cr_assert_not(share_is_spent(&share, &sum, now), "at %lu s", now / SECOND);
		sum.cpu_ns += MS;
		sum.cost_ns += MS / 2;
	}
	for (uint64_t now = 1000 * SECOND; now < 1060 * SECOND; now += 50 * MS) {
		share_is_spent(&share, &sum, now);
		sum.cpu_ns += 10 * MS;
		sum.cost_ns += 5 * MS;
	}
	cr_assert(share_is_spent(&share, &sum, 1060 * SECOND), "it is no small one any more");
}

Test(budget, of_a_process_that_does_little_is_never_exceeded)
{
	struct share share = { .budget = { .percent = 20, .least_stretch_ns = 8 * MS } };
	struct cost_sum sum = { .cpu_ns = 10 * MS, .cost_ns = 5 * MS };

	cr_assert_not(share_is_spent(&share, &sum, SECOND));
	cr_assert_not(share_is_spent(&share, &sum, SECOND + MS), "5 ms left are no reason to wait");
}
