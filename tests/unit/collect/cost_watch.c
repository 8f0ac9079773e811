// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* When recording costs a process much, and in what words. */
#include "collect/budget/cost_watch.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/array.h"

#define MS 1000000ULL
#define START (100 * MS)

static struct cost_look look_at(uint64_t now_ms, uint64_t cpu_ms, uint64_t cost_ms)
{
	return (struct cost_look){
		.now_ns = START + now_ms * MS, .trap_nr = 1000 * cost_ms, .sum = { .cpu_ns = cpu_ms * MS, .cost_ns = cost_ms * MS },
	};
}

/* As the recorder looks: the clocks are read if they are wanted. */
static bool costs_much(struct cost_watch *watch, struct cost_look now, struct cost_look *ret)
{
	return cost_watch_wants(watch, START, &now) && cost_watch_judge(watch, &now, ret);
}

Test(cost_watch, is_above_half_of_its_own_time)
{
	static const struct {
		const char *what;
		uint64_t now_ms, cpu_ms, cost_ms;
		bool is_much;
	} cases[] = {
		{ "nothing at all", 600, 0, 0, false },
		{ "too early", 499, 499, 490, false },
		{ "nearly all", 500, 500, 490, true },
		{ "a little more than half", 600, 302, 102, true },
		{ "a little less", 600, 298, 98, false },
		{ "half of next to nothing", 1000, 30, 28, false },
		{ "half of a tenth of a core", 1000, 100, 50, false },
		{ "a little more", 1000, 100, 51, true },
		{ "more than it used: traps cost less than they were thought to", 600, 500, 520, true },
		{ "two threads", 600, 1200, 500, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cost_watch watch = {};
		struct cost_look part = {};

		cr_expect_eq(costs_much(&watch, look_at(cases[i].now_ms, cases[i].cpu_ms, cases[i].cost_ms), &part), cases[i].is_much, "%s",
			     cases[i].what);
		cr_expect_eq(part.sum.cost_ns, cases[i].is_much ? cases[i].cost_ms * MS : 0, "%s", cases[i].what);
	}
}

/* It is noticed in the second after the first look that shows it, however long nothing was. */
Test(cost_watch, of_a_process_that_was_idle_for_an_hour)
{
	struct cost_watch watch = {};
	struct cost_look part = {};
	uint64_t hour = 3600 * 1000;

	for (uint64_t ms = 1000; ms <= hour; ms += 1000)
		cr_assert_not(costs_much(&watch, look_at(ms, ms / 100, 0), &part));
	cr_expect_not(costs_much(&watch, look_at(hour + 1000, hour / 100 + 1000, 900), &part), "its clock was not read before");
	cr_expect(costs_much(&watch, look_at(hour + 2000, hour / 100 + 2000, 1800), &part));
	cr_expect_eq(part.now_ns, 1000 * MS);
	cr_expect_eq(part.sum.cpu_ns, 1000 * MS);
	cr_expect_eq(part.sum.cost_ns, 900 * MS);
}

/* One program in 64 is timed: one that was interrupted stands for as many. */
Test(cost_watch, is_not_of_a_few_traps)
{
	for (uint64_t nr = COST_TRAPS_LEAST - 1; nr <= COST_TRAPS_LEAST; nr++) {
		struct cost_watch watch = {};
		struct cost_look part, now = look_at(500, 400, 300);

		now.trap_nr = nr;
		cr_expect_eq(costs_much(&watch, now, &part), nr == COST_TRAPS_LEAST);
	}
}

/* Another program has begun: its numbers begin again. */
Test(cost_watch, after_an_exec_that_begins_anew)
{
	struct cost_watch watch = {};
	struct cost_look part = {};

	cr_expect(costs_much(&watch, look_at(1000, 1000, 900), &part));
	cr_expect_not(costs_much(&watch, look_at(2000, 10, 1), &part));
}

Test(cost_watch, waits_for_its_first_part_only)
{
	struct cost_watch watch = {};
	struct cost_look part;

	cr_expect_eq(cost_watch_wait_ns(&watch, START, START), COST_WATCH_NS);
	cr_expect_not(costs_much(&watch, look_at(200, 200, 190), &part));
	cr_expect_eq(cost_watch_wait_ns(&watch, START, START + 200 * MS), COST_WATCH_NS - 200 * MS);
	cr_expect_eq(cost_watch_wait_ns(&watch, START, START + 900 * MS), 1, "it is due");
	cr_expect_not(costs_much(&watch, look_at(900, 10, 1), &part));
	cr_expect_eq(cost_watch_wait_ns(&watch, START, START + 900 * MS), UINT64_MAX);
}

Test(cost_watch, says_no_more_than_was_measured)
{
	static const struct {
		uint64_t cpu_ms, cost_ms;
		const char *text;
	} cases[] = {
		{ 500, 250, "about 2.0 times slower (traps took about 250 ms of 500 ms of its CPU time)" },
		{ 500, 440, "about 8.3 times slower (traps took about 440 ms of 500 ms of its CPU time)" },
		{ 500, 499, "10 times slower or more (traps took about 499 ms of 500 ms of its CPU time)" },
		{ 500, 620, "10 times slower or more (traps took about 500 ms of 500 ms of its CPU time)" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct cost_look part = look_at(500, cases[i].cpu_ms, cases[i].cost_ms);
		struct reason text;

		cost_watch_format(&text, &part);
		cr_expect_str_eq(text.text, cases[i].text, "%s", text.text);
	}
}
