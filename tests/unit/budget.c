// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget, with simulated clocks. */
#include <criterion/criterion.h>

#include "collect/budget.h"
#include "collect/cost.h"

#define MS 1000000ULL

/* A program that one trap-ridden second makes so many of its own slower. */
struct program {
	struct budget budget;
	struct cost_sum sum;
	double slowdown; /* of its own time while it is recorded: cost / own */
	bool is_paused;
	unsigned int pauses;
	uint64_t own_on_ns, own_ns;
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

		program->own_ns += own;
		program->own_on_ns += program->is_paused ? 0 : own;
		program->sum.cost_ns += cost;
		program->sum.cpu_ns += own + cost;
		order = budget_judge(&program->budget, &program->sum, program->is_paused);
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

Test(budget, is_kept_by_programs_of_any_length)
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

Test(budget, is_used)
{
	for (uint64_t ms = 2000; ms < 100000; ms *= 3) {
		struct program program = program_with(20, 5);

		go_on(&program, ms * MS);
		cr_expect(overhead(&program) > 0.20 * 0.8, "for %lu ms: %f", ms,
			  overhead(&program));
	}
}

Test(budget, of_a_cheap_program_is_never_spent)
{
	struct program program = program_with(20, 0.1);

	go_on(&program, 100000 * MS);
	cr_expect_eq(program.pauses, 0);
	cr_expect_not(budget_is_spending(&program.budget));
}

Test(budget, is_earned_in_cheap_times)
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

Test(budget, of_a_process_that_does_nothing_stays_as_it_is)
{
	struct budget budget = { .percent = 20, .least_stretch_ns = 8 * MS };
	struct cost_sum none = {};

	cr_expect_eq(budget_judge(&budget, &none, false), BUDGET_AS_IT_IS);
	cr_expect_eq(budget_judge(&budget, &(struct cost_sum){ 11 * MS, 11 * MS }, false),
		     BUDGET_PAUSE);
	cr_expect_eq(budget_judge(&budget, &(struct cost_sum){ 11 * MS, 11 * MS }, true),
		     BUDGET_AS_IT_IS);
}

/* An estimate may be wrong. */
Test(budget, bears_a_cost_above_the_time)
{
	struct budget budget = { .percent = 20, .least_stretch_ns = 8 * MS };
	const struct cost_sum sum = { 100 * MS, 150 * MS };

	cr_expect_eq(budget_judge(&budget, &sum, false), BUDGET_PAUSE);
	cr_expect_eq(budget_judge(&budget, &sum, true), BUDGET_AS_IT_IS);
	cr_expect(budget_wait_ns(&budget, &sum, true, 2) <= 100 * MS);
	cr_expect(budget_wait_ns(&budget, &sum, false, 2) >= MS);
}

Test(budget, that_is_none_orders_nothing)
{
	struct budget none = {};
	const struct cost_sum sum = { 100 * MS, 90 * MS };

	cr_expect_eq(budget_judge(&none, &sum, false), BUDGET_AS_IT_IS);
	cr_expect_not(budget_is_spending(&none));
}

Test(cost, is_what_traps_and_programs_took)
{
	const struct trap_costs costs = { .entry_ns = 700, .stepped_ns = 9000, .return_ns = 500 };
	struct process books = {};

	books.counter[COUNTER_entry_traps] = 10;
	books.counter[COUNTER_stepped_traps] = 2;
	books.counter[COUNTER_return_traps] = 3;
	books.counter[COUNTER_program_ns] = 12345;
	cr_expect_eq(cost_of(&costs, &books), 7000 + 18000 + 1500 + 12345);
	cr_expect_eq(cost_of(&(struct trap_costs){}, &books), 0, "not known");
	cr_expect_eq(cost_share(&(struct cost_sum){ 1000, 340 }), 34);
	cr_expect_eq(cost_share(&(struct cost_sum){}), 0);
	cr_expect_eq(cost_share(&(struct cost_sum){ 10, 20 }), 100);
}
