// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget, with simulated clocks. */
#include <criterion/criterion.h>

#include "collect/budget/budget.h"
#include "collect/budget/recording_cost.h"
#include "collect/session/own_links.h"
#include "collect/target/target.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)

/* A process that is recorded: what it costs in a core's time, as a share of the wall-clock time. */
struct program {
	struct budget budget;
	double whole;	/* while every block is recorded */
	double sampled; /* while it is sampled */
	bool is_paused;
	unsigned int processors;
	uint64_t now_ns, cost_ns;
	uint64_t paused_ns, thinned_ns, pauses;
};

static struct program program_of(uint64_t percent, double whole, double sampled)
{
	struct program program = {
		.whole = whole, .sampled = sampled, .processors = whole < 2 ? 2 : whole, .now_ns = SECOND,
	};

	budget_begin(&program.budget, percent, 5 * MS);
	budget_update(&program.budget, 0, program.now_ns);
	return program;
}

static double cost_now(const struct program *program)
{
	return program->is_paused ? 0 : program->budget.rate ? program->sampled : program->whole;
}

/* Looks at it as often as the budget wants to. */
static void go_on(struct program *program, uint64_t ns)
{
	uint64_t end_ns = program->now_ns + ns;

	while (program->now_ns < end_ns) {
		uint64_t wait_ns = budget_wait_ns(&program->budget, program->processors);

		cr_assert(wait_ns >= MS && wait_ns <= 100 * MS);
		program->cost_ns += wait_ns * cost_now(program);
		program->paused_ns += program->is_paused ? wait_ns : 0;
		program->thinned_ns += program->budget.rate ? wait_ns : 0;
		program->now_ns += wait_ns;
		budget_update(&program->budget, program->cost_ns, program->now_ns);
		program->pauses += program->budget.is_spent && !program->is_paused;
		program->is_paused = program->budget.is_spent;
	}
}

/* Counts from here on. */
static void begin_count(struct program *program)
{
	program->paused_ns = program->thinned_ns = program->pauses = 0;
}

static double share_of_core(const struct program *program)
{
	return (double)program->cost_ns / (program->now_ns - SECOND);
}

Test(budget, is_kept_by_processes_of_any_cost)
{
	static const double cost[] = { 0.03, 0.2, 0.9, 2, 16 };

	for (uint64_t percent = 1; percent <= 100; percent *= 3)
		for (size_t i = 0; i < sizeof(cost) / sizeof(*cost); i++) {
			struct program program = program_of(percent, cost[i], cost[i] * 0.6);

			go_on(&program, 100 * SECOND);
			/* A credit at the start; what is overlooked is a millisecond of all cores for each pause. */
			cr_expect(share_of_core(&program) < percent / 100.0 * 1.02 + cost[i] * 0.004,
				  "%lu %% of a core, cost %.2f: %f", percent, cost[i], share_of_core(&program));
		}
}

Test(budget, is_used_by_an_expensive_process)
{
	struct program program = program_of(10, 0.9, 0.5);

	go_on(&program, 100 * SECOND);
	cr_expect(share_of_core(&program) > 0.09, "%f", share_of_core(&program));
	cr_expect_gt(program.pauses, 10);
}

Test(budget, of_a_process_below_it_changes_nothing)
{
	static const uint64_t percent[] = { 1, 5, 10, 20 };

	for (size_t i = 0; i < sizeof(percent) / sizeof(*percent); i++) {
		struct program program = program_of(percent[i], percent[i] / 100.0 * 0.99, 0);

		go_on(&program, 1000 * SECOND);
		cr_expect_eq(program.pauses, 0);
		cr_expect_eq(program.thinned_ns, 0, "%lu %%: thinned for %lu ms", percent[i], program.thinned_ns / MS);
	}
}

/* The least budget is 1 %. */
Test(budget, of_a_process_below_one_percent_of_a_core_is_never_touched)
{
	struct program program = program_of(1, 0.0099, 0.0099);

	go_on(&program, 1000 * SECOND);
	cr_expect_eq(program.pauses + program.thinned_ns, 0);
}

Test(budget, is_kept_by_samples_if_they_suffice)
{
	struct program program = program_of(10, 0.16, 0.08);

	go_on(&program, 100 * SECOND);
	cr_expect_eq(program.pauses, 0);
	cr_expect_gt(program.thinned_ns, 50 * SECOND);
	cr_expect(share_of_core(&program) < 0.102, "%f", share_of_core(&program));
	cr_expect(share_of_core(&program) > 0.09, "every block is recorded while there is credit: %f",
		  share_of_core(&program));
}

/* 5 s at full speed, then next to nothing. */
Test(budget, is_there_again_a_second_after_a_burst)
{
	for (uint64_t percent = 1; percent <= 100; percent *= 3) {
		struct program program = program_of(percent, 0.95, 0.6);

		go_on(&program, 5 * SECOND);
		program.whole = program.sampled = 0.003;
		begin_count(&program);
		go_on(&program, 40 * SECOND);
		cr_expect_leq(program.paused_ns, 1100 * MS, "%lu %%: %lu ms", percent, program.paused_ns / MS);
		cr_expect_leq(program.thinned_ns, 2500 * MS, "%lu %%: %lu ms", percent, program.thinned_ns / MS);
		cr_expect_eq(program.pauses, 0);
	}
}

/* Idleness earns no more than a second gives. */
Test(budget, is_not_saved_up)
{
	struct program program = program_of(10, 0, 0);
	uint64_t cost_ns;

	go_on(&program, 1000 * SECOND);
	program.whole = 0.9;
	program.sampled = 0.6;
	cost_ns = program.cost_ns;
	go_on(&program, SECOND);
	cr_expect_leq(program.cost_ns - cost_ns, 220 * MS, "%lu ms", (program.cost_ns - cost_ns) / MS);
}

/* In a long drain there is no look for a while. */
Test(budget, debt_is_paid_within_a_second)
{
	struct program program = program_of(10, 0.9, 0.6);

	program.cost_ns = program.now_ns += 20 * SECOND;
	budget_update(&program.budget, program.cost_ns, program.now_ns);
	cr_assert(program.budget.is_spent);
	program.is_paused = true;
	begin_count(&program);
	program.whole = program.sampled = 0;
	go_on(&program, 3 * SECOND);
	cr_expect_leq(program.paused_ns, 1100 * MS, "%lu ms", program.paused_ns / MS);
}

/* One process's spending is nothing to another: each has a budget of its own. */
Test(budget, of_quiet_processes_is_not_spent_by_a_busy_one)
{
	struct program busy = program_of(10, 0.9, 0.6);
	struct program quiet[4];

	for (int i = 0; i < 4; i++)
		quiet[i] = program_of(10, 0.006 * (i + 1), 0.006);
	for (int s = 0; s < 100; s++) {
		go_on(&busy, SECOND);
		for (int i = 0; i < 4; i++)
			go_on(&quiet[i], SECOND);
	}
	cr_expect_gt(busy.pauses, 0);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(quiet[i].pauses + quiet[i].thinned_ns, 0, "number %d", i);
}

/* A pass pauses processes that would pause soon anyway, and no others. */
Test(budget, is_being_spent_by_processes_that_paused_lately)
{
	struct program program = program_of(10, 0.16, 0.08);

	go_on(&program, 10 * SECOND);
	cr_assert_not(budget_is_spending(&program.budget, program.now_ns));
	program.sampled = 0.5;
	go_on(&program, 2 * SECOND);
	cr_assert(budget_is_spending(&program.budget, program.now_ns));
	program.whole = program.sampled = 0;
	go_on(&program, 4 * SECOND);
	cr_assert_not(budget_is_spending(&program.budget, program.now_ns));
}

/* Perf uprobes: a pause takes a tenth of a second for each probe. */
Test(budget, has_long_stretches_where_pauses_are_slow)
{
	struct program program = { .whole = 0.9, .sampled = 0.6, .processors = 2, .now_ns = SECOND };

	budget_begin(&program.budget, 10, SECOND);
	budget_update(&program.budget, 0, program.now_ns);
	go_on(&program, 200 * SECOND);
	cr_expect_leq(program.pauses, 22);
	cr_expect_geq(program.pauses, 10);
	cr_expect(share_of_core(&program) < 0.12, "%f", share_of_core(&program));
}

Test(budget, that_is_unset_never_pauses)
{
	struct budget none = {};

	budget_begin(&none, 0, 5 * MS);
	budget_update(&none, 90 * MS, SECOND);
	budget_update(&none, 900 * SECOND, 2 * SECOND);
	cr_expect_not(none.is_spent);
	cr_expect_eq(none.rate, 0);
	cr_expect_not(budget_is_spending(&none, 2 * SECOND));
	cr_expect_eq(budget_wait_ns(&none, 2), UINT64_MAX);
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
}

/* A snapshot took three seconds. */
Test(budget, compares_what_was_earned_and_spent_between_late_looks)
{
	struct budget budget;

	budget_begin(&budget, 10, 5 * MS);
	budget_update(&budget, 0, SECOND);
	budget_update(&budget, 240 * MS, 4 * SECOND); /* 8 % */
	cr_expect_eq(budget.left_ns, (int64_t)(100 * MS), "%ld ns left", (long)budget.left_ns);
	cr_expect_eq(budget.rate, 0, "it is sampled");
	budget_update(&budget, 600 * MS, 7 * SECOND); /* 12 % */
	cr_expect_eq(budget.left_ns, (int64_t)(40 * MS), "%ld ns left", (long)budget.left_ns);
}

Test(budget, costs_have_the_walks_over_other_links)
{
	struct trap_costs costs = { .entry_ns = 700, .link_ns = 30, .others_nr = 20 };
	struct process books = {};
	struct link_walks walks = {};

	books.counter[COUNTER_entry_traps] = 100;
	books.counter[COUNTER_return_traps] = 10;
	cr_expect_eq(cost_of_walks(&costs, &books, &walks), 110 * 20 * 30);
	costs.others_nr = 0; /* the links are shared again */
	books.counter[COUNTER_entry_traps] = 1000;
	cr_expect_eq(cost_of_walks(&costs, &books, &walks), 110 * 20 * 30);
}
