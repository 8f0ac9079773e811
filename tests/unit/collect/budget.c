// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A budget, with simulated clocks. */
#include <criterion/criterion.h>

#include "base/array.h"
#include "collect/budget/budget.h"
#include "collect/budget/calibrate.h"
#include "collect/budget/interval_control.h"
#include "collect/build/build_metadata.h"
#include "collect/limits/own_links.h"
#include "collect/target/target.h"
#include "snapshot_sample.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)

/* A process that is recorded: what it costs in a core's time, as a share of the wall-clock time. */
struct program {
	struct budget budget;
	double whole;	/* while every block is recorded */
	double sampled; /* while it is sampled */
	double own;	/* what it uses itself */
	bool is_paused;
	unsigned int processors;
	uint64_t now_ns;
	struct budget_use use;
	uint64_t paused_ns, thinned_ns, pauses;
};

static struct budget_terms terms_of(uint64_t percent)
{
	return (struct budget_terms){ .percent = percent, .core_ns = SECOND, .least_stretch_ns = 5 * MS };
}

/* It uses one core. */
static struct program program_of(uint64_t percent, double whole, double sampled)
{
	const struct budget_terms terms = terms_of(percent);
	struct program program = {
		.whole = whole, .sampled = sampled, .own = 1, .processors = whole < 2 ? 2 : whole, .now_ns = SECOND,
	};

	budget_begin(&program.budget, &terms);
	budget_update(&program.budget, &program.use, program.now_ns);
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
		program->use.cost_ns += wait_ns * cost_now(program);
		program->use.own_ns += wait_ns * program->own;
		program->paused_ns += program->is_paused ? wait_ns : 0;
		program->thinned_ns += program->budget.rate ? wait_ns : 0;
		program->now_ns += wait_ns;
		budget_update(&program->budget, &program->use, program->now_ns);
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
	return (double)program->use.cost_ns / (program->now_ns - SECOND);
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

/* 5 s at full speed, then next to nothing: what it used itself is forgotten, too. */
Test(budget, is_there_again_soon_after_a_burst)
{
	for (uint64_t percent = 1; percent <= 100; percent *= 3) {
		struct program program = program_of(percent, 0.95, 0.6);

		go_on(&program, 5 * SECOND);
		program.whole = program.sampled = 0.0003;
		program.own = 0.001;
		begin_count(&program);
		go_on(&program, 40 * SECOND);
		cr_expect_leq(program.paused_ns, (percent < 10 ? 8000 : 3000) * MS, "%lu %%: %lu ms", percent,
			      program.paused_ns / MS);
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
	cost_ns = program.use.cost_ns;
	go_on(&program, SECOND);
	cr_expect_leq(program.use.cost_ns - cost_ns, 220 * MS, "%lu ms", (program.use.cost_ns - cost_ns) / MS);
}

/* In a long drain there is no look for a while. */
Test(budget, debt_is_paid_within_a_second)
{
	struct program program = program_of(10, 0.9, 0.6);

	program.use.cost_ns = program.now_ns += 20 * SECOND;
	budget_update(&program.budget, &program.use, program.now_ns);
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
	struct program program = program_of(10, 0.9, 0.6);

	program.budget.terms.least_stretch_ns = SECOND;
	go_on(&program, 200 * SECOND);
	cr_expect_leq(program.pauses, 22);
	cr_expect_geq(program.pauses, 10);
	cr_expect(share_of_core(&program) < 0.12, "%f", share_of_core(&program));
}

Test(budget, that_is_unset_never_pauses)
{
	const struct budget_terms terms = terms_of(0);
	struct budget none = {};

	budget_begin(&none, &terms);
	budget_update(&none, &(struct budget_use){ 90 * MS, 0 }, SECOND);
	budget_update(&none, &(struct budget_use){ 900 * SECOND, 0 }, 2 * SECOND);
	cr_expect_not(none.is_spent);
	cr_expect_eq(none.rate, 0);
	cr_expect_not(budget_is_spending(&none, 2 * SECOND));
	cr_expect_eq(budget_wait_ns(&none, 2), UINT64_MAX);
}

/* ---- of what ---------------------------------------------------------------------------------- */

/* Returns the cost as a share of what it uses itself. */
static double share_of_own(struct program program, double own)
{
	program.own = own;
	go_on(&program, 30 * SECOND); /* what it began with is spent */
	program.use = (struct budget_use){ .own_ns = program.use.own_ns };
	program.budget.use.cost_ns = 0;
	go_on(&program, 300 * SECOND);
	return program.use.cost_ns / (own * 300 * SECOND);
}

Test(budget, is_of_what_the_process_uses_itself)
{
	static const double own[] = { 0.1, 0.15, 0.3, 0.7, 1 };

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		for (uint64_t percent = 5; percent <= 50; percent *= 3) {
			double share = share_of_own(program_of(percent, 0.9, 0.6), own[i]);

			cr_expect(share < percent / 100.0 * 1.05 && share > percent / 100.0 * 0.8,
				  "%lu %%, own %.2f: %f", percent, own[i], share);
		}
}

/* A redis that gets 3 % of a core under load, and a server that sleeps. */
Test(budget, of_a_process_that_uses_little_is_as_of_a_tenth_of_a_core)
{
	static const double own[] = { 0, 0.008, 0.09 };

	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
		struct program busy = program_of(10, 0.025, 0.02), quiet = program_of(10, 0.0098, 0.0098);

		busy.own = quiet.own = own[i];
		go_on(&busy, 600 * SECOND);
		cr_expect(share_of_core(&busy) > 0.009 && share_of_core(&busy) < 0.0105, "own %.3f: %f", own[i],
			  share_of_core(&busy));
		go_on(&quiet, 600 * SECOND);
		cr_expect_eq(quiet.pauses + quiet.thinned_ns, 0, "own %.3f", own[i]);
	}
}

/* Four busy threads: percent of one core, as ever. */
Test(budget, is_of_one_core_at_most)
{
	struct program program = program_of(10, 3, 2);

	program.own = 4;
	go_on(&program, 100 * SECOND);
	cr_expect(share_of_core(&program) > 0.09 && share_of_core(&program) < 0.115, "%f", share_of_core(&program));
}

Test(budget, is_of_a_quota_that_is_less_than_a_core)
{
	struct program program = program_of(10, 0.9, 0.6), idle = program;

	program.budget.terms.core_ns = idle.budget.terms.core_ns = SECOND / 5;
	idle.own = 0.001;
	go_on(&program, 100 * SECOND);
	cr_expect(share_of_core(&program) > 0.018 && share_of_core(&program) < 0.023, "%f", share_of_core(&program));
	go_on(&idle, 100 * SECOND);
	cr_expect(share_of_core(&idle) < 0.005, "a tenth of the quota: %f", share_of_core(&idle));
	program.budget.terms.core_ns = SECOND; /* somebody has changed the quota */
	program.use.cost_ns = program.budget.use.cost_ns = 0;
	program.now_ns = program.budget.now_ns = SECOND;
	go_on(&program, 100 * SECOND);
	cr_expect(share_of_core(&program) > 0.09, "%f", share_of_core(&program));
}

/* Threads report their cost now and then, so the rest of the CPU time goes down again. */
Test(budget, counts_own_time_once_though_costs_come_late)
{
	const struct budget_terms terms = terms_of(10);
	struct budget budget;
	struct budget_use use = {};
	int64_t spent = 0, before;

	budget_begin(&budget, &terms);
	budget_update(&budget, &use, SECOND);
	for (int i = 1; i <= 10000; i++) {
		use.own_ns = i * MS / 5 + (i % 2) * 40 * MS; /* a fifth of a core */
		use.cost_ns += MS / 50;
		before = budget.left_ns;
		budget_update(&budget, &use, SECOND + i * MS);
		spent += before - budget.left_ns;
	}
	cr_expect_not(budget.is_spent);
	use.cost_ns += 300 * MS;
	budget_update(&budget, &use, 12 * SECOND);
	cr_expect(budget.is_spent);
	cr_expect(spent > 0 && budget.share_ns < 25 * MS, "%lu ms in a second", budget.share_ns / MS);
}

Test(cost, is_the_sum_of_traps_and_program_time)
{
	const struct trap_costs costs = { .entry_ns = 700, .stepped_ns = 9000, .return_ns = 500 };
	struct process account = {};

	account.counter[COUNTER_entry_traps] = 10;
	account.counter[COUNTER_stepped_traps] = 2;
	account.counter[COUNTER_return_traps] = 3;
	account.counter[COUNTER_program_ns] = 12345;
	cr_expect_eq(cost_of_account(&costs, &account), 7000 + 18000 + 1500 + 12345);
	cr_expect_eq(cost_of_account(&(struct trap_costs){}, &account), 0, "not known");
}

/* A snapshot took three seconds. */
Test(budget, compares_what_was_earned_and_spent_between_late_looks)
{
	const struct budget_terms terms = terms_of(10);
	struct budget budget;

	budget_begin(&budget, &terms);
	budget_update(&budget, &(struct budget_use){}, SECOND);
	budget_update(&budget, &(struct budget_use){ 240 * MS, 3 * SECOND }, 4 * SECOND); /* 8 % */
	cr_expect_eq(budget.left_ns, (int64_t)(100 * MS), "%ld ns left", (long)budget.left_ns);
	cr_expect_eq(budget.rate, 0, "it is sampled");
	budget_update(&budget, &(struct budget_use){ 600 * MS, 6 * SECOND }, 7 * SECOND); /* 12 % */
	cr_expect_eq(budget.left_ns, (int64_t)(40 * MS), "%ld ns left", (long)budget.left_ns);
}

Test(budget, costs_have_the_walks_over_other_links)
{
	struct trap_costs costs = { .entry_ns = 700, .link_ns = 30, .others_nr = 20 };
	struct process account = {};
	struct link_walks walks = {};

	account.counter[COUNTER_entry_traps] = 100;
	account.counter[COUNTER_return_traps] = 10;
	cr_expect_eq(cost_of_walks(&costs, &account, &walks), 110 * 20 * 30);
	costs.others_nr = 0; /* the links are shared again */
	account.counter[COUNTER_entry_traps] = 1000;
	cr_expect_eq(cost_of_walks(&costs, &account, &walks), 110 * 20 * 30);
}

/* ---- pause gaps ---- */

/* Sums of the gaps of a recording, from any time to any other. */

static void add_gap(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns)
{
	cr_assert_eq(pausing_make_room(pausing), 0);
	pausing->open_ns = start_ns;
	pausing_close_gap(pausing, end_ns);
}

static void expect_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns, uint64_t nr, uint64_t length_ns)
{
	struct gaps_sum sum = pausing_sum(pausing, start_ns, now_ns);

	cr_expect(sum.nr == nr && sum.length_ns == length_ns, "from %lu to %lu: %lu gaps, %lu ns", start_ns, now_ns, sum.nr,
		  sum.length_ns);
}

Test(pause_gaps, may_be_known_afterwards)
{
	struct pausing pausing = {};

	add_gap(&pausing, 100, 200);
	cr_assert_eq(pausing_add_past(&pausing, 200, 250), 0, "longer");
	cr_assert_eq(pausing_add_past(&pausing, 300, 400), 0, "another");
	cr_assert_eq(pausing_add_past(&pausing, 390, 420), 0, "they overlap");
	expect_sum(&pausing, 0, 1000, 2, 270);
	add_gap(&pausing, 430, 440);
	expect_sum(&pausing, 0, 1000, 3, 280);
	pausing.open_ns = 500;
	cr_assert_eq(pausing_add_past(&pausing, 450, 600), 0, "in an open one");
	expect_sum(&pausing, 0, 1000, 4, 780);
	pausing_release(&pausing);
}

Test(pause_gaps, are_cut_at_both_ends)
{
	struct pausing pausing = {};

	expect_sum(&pausing, 0, 1000, 0, 0);
	add_gap(&pausing, 100, 110);
	add_gap(&pausing, 200, 230);
	add_gap(&pausing, 300, 301);
	expect_sum(&pausing, 0, 1000, 3, 41);
	expect_sum(&pausing, 0, 300, 2, 40);
	expect_sum(&pausing, 0, 205, 2, 15);
	expect_sum(&pausing, 105, 1000, 3, 36);
	expect_sum(&pausing, 110, 1000, 2, 31);
	expect_sum(&pausing, 210, 220, 1, 10);
	expect_sum(&pausing, 240, 250, 0, 0);
	expect_sum(&pausing, 400, 300, 0, 0);
	pausing_release(&pausing);
}

/* Gaps of a shared budget may be older than a process. */
Test(pause_gaps, an_open_one_counts_until_now)
{
	struct pausing pausing = {};

	add_gap(&pausing, 100, 110);
	pausing.open_ns = 500;
	expect_sum(&pausing, 0, 500, 1, 10);
	expect_sum(&pausing, 0, 507, 2, 17);
	expect_sum(&pausing, 503, 507, 1, 4);
	pausing_release(&pausing);
}

/* The oldest are kept as a sum. */
Test(pause_gaps, are_the_same_for_every_gap_that_is_kept)
{
	struct pausing pausing = {};
	uint64_t nr = GAPS_MAX + GAPS_MAX / 4;

	for (uint64_t i = 1; i <= nr; i++)
		add_gap(&pausing, 10000 * i, 10000 * i + i);
	cr_assert_lt(pausing.gap_nr, nr);
	expect_sum(&pausing, 0, 10000 * nr + nr, nr, nr * (nr + 1) / 2);
	expect_sum(&pausing, 10000 * nr, 10000 * nr + nr, 1, nr);
	expect_sum(&pausing, 10000 * (nr - 2) + nr, 10000 * (nr + 1), 2, nr + nr - 1);
	pausing_release(&pausing);
}

/* Each time is in one gap of the snapshot only, whichever probes paused. */
Test(pause_gaps, that_overlap_are_described_once)
{
	static const struct snap_gap expected[] = { { 150, 200 }, { 300, 500 }, { 600, 650 }, { 650, 700 }, { 900, 1000 } };
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct pausing shared = {};
	struct target target = { .life.started_ns = 150, .budget.shared = &shared };
	const struct snapshot_tables *tables;
	struct snapshot *snapshot;

	add_gap(&target.budget.own, 100, 200);
	add_gap(&target.budget.own, 300, 500);
	add_gap(&target.budget.own, 620, 700);
	add_gap(&shared, 120, 180);
	add_gap(&shared, 350, 400);
	add_gap(&shared, 600, 650);
	target.budget.own.open_ns = 900;
	shared.open_ns = 950;
	cr_assert_eq(describe_gaps(builder, &target, 1000), 0);
	snapshot = sample_finish(builder);
	tables = snapshot__tables(snapshot);
	cr_assert_eq(tables->gap_nr, ARRAY_SIZE(expected));
	cr_assert_arr_eq(tables->gap, expected, sizeof(expected));
	snapshot__close(snapshot);
	pausing_release(&target.budget.own);
	pausing_release(&shared);
}

/* ---- thinned time ---- */

Test(thinned_time, is_from_change_to_change)
{
	struct thinned_time time = {};

	cr_expect_eq(thinned_time_until(&time, 1000), 0);
	thinned_time_set(&time, false, 100);
	thinned_time_set(&time, true, 200);
	thinned_time_set(&time, true, 230);
	thinned_time_set(&time, false, 250);
	thinned_time_set(&time, false, 400);
	cr_expect_eq(thinned_time_until(&time, 1000), 50);
	thinned_time_set(&time, true, 500);
	thinned_time_set(&time, false, 501);
	cr_expect_eq(thinned_time_until(&time, 1000), 51);
}

/* A process that ends, or has a snapshot, before the budget is looked at again. */
Test(thinned_time, that_goes_on_counts_until_now)
{
	struct thinned_time time = {};

	thinned_time_set(&time, true, 200);
	cr_expect_eq(thinned_time_until(&time, 207), 7);
	cr_expect_eq(thinned_time_until(&time, 240), 40);
	cr_expect_eq(thinned_time_until(&time, 150), 0);
	thinned_time_set(&time, true, 250);
	cr_expect_eq(thinned_time_until(&time, 251), 51);
}
