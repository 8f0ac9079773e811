// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which ways cost less than traps, which one `leaks` takes, and in what words. */
#include "collect/sources/ways.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/array.h"

#define BIT(way) (1u << (way))

/* Hooks are of a CPython. */
static struct ways ways_of(bool is_python, unsigned int works)
{
	struct ways ways = { .is_python = is_python, .exact_is_python = true };

	for (enum way way = 0; way < WAY_NR; way++)
		ways.works[way] = works >> way & 1;
	return ways;
}

/* Any program can have these ways. */
#define HEAP (BIT(WAY_INJECT) | BIT(WAY_FAST) | BIT(WAY_BUDGET))

Test(ways, cheaper_ones_come_in_the_order_of_their_cost_if_they_answer_the_same)
{
	static const struct {
		const char *what;
		bool is_python;
		unsigned int works;
		enum way expected[WAY_NR];
		size_t nr;
	} cases[] = {
		{ "a program of C", false, HEAP, { WAY_INJECT, WAY_FAST, WAY_BUDGET }, 3 },
		{ "a static one", false, HEAP & ~BIT(WAY_FAST), { WAY_INJECT, WAY_BUDGET }, 2 },
		{ "injection is refused", false, HEAP & ~BIT(WAY_INJECT), { WAY_FAST, WAY_BUDGET }, 2 },
		{ "none, with a budget", false, 0, {}, 0 },
		{ "Python's objects", true, HEAP | BIT(WAY_EXACT) | BIT(WAY_POOLS), { WAY_EXACT, WAY_POOLS, WAY_BUDGET }, 3 },
		{ "of 3.10", true, HEAP | BIT(WAY_POOLS), { WAY_POOLS, WAY_BUDGET }, 2 },
		{ "no pools", true, HEAP | BIT(WAY_EXACT), { WAY_EXACT, WAY_BUDGET }, 2 },
		{ "neither: then its heap", true, HEAP, { WAY_INJECT, WAY_FAST, WAY_BUDGET }, 3 },
		{ "a Python's heap", false, HEAP | BIT(WAY_EXACT) | BIT(WAY_POOLS), { WAY_INJECT, WAY_FAST, WAY_BUDGET }, 3 },
		{ "of many processes", false, BIT(WAY_FAST) | BIT(WAY_BUDGET), { WAY_FAST, WAY_BUDGET }, 2 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct ways ways = ways_of(cases[i].is_python, cases[i].works);
		enum way found[WAY_NR];
		size_t nr = ways_cheaper(&ways, found);

		cr_assert_eq(nr, cases[i].nr, "%s: %zu ways", cases[i].what, nr);
		for (size_t k = 0; k < nr; k++)
			cr_expect_eq(found[k], cases[i].expected[k], "%s: way %zu is %d", cases[i].what, k, found[k]);
	}
}

Test(ways, hooks_of_the_heap_come_first_where_the_heap_is_recorded)
{
	struct ways ways = ways_of(false, HEAP | BIT(WAY_EXACT));
	enum way found[WAY_NR];

	ways.exact_is_python = false;
	cr_assert_eq(ways_cheaper(&ways, found), 4);
	cr_expect_eq(found[0], WAY_EXACT);
	cr_expect_eq(ways_next_step(&ways), WAY_EXACT);
	ways.is_python = true;
	cr_expect_eq(ways_next_step(&ways), WAY_INJECT);
}

/* The longest text has room, and names each way once. */
Test(ways, cheaper_ones_are_named_by_their_options)
{
	static const char *const options[WAY_NR] = {
		[WAY_EXACT] = "--inject=exact (", [WAY_POOLS] = "--sample pools (", [WAY_INJECT] = "--inject (",
		[WAY_FAST] = "'run --fast' (", [WAY_BUDGET] = "--max-overhead 10 (",
	};
	char text[WAYS_TEXT_MAX];

	for (unsigned int works = 0; works < BIT(WAY_NR); works++) {
		for (int is_python = 0; is_python < 2; is_python++) {
			const struct ways ways = ways_of(is_python, works);
			enum way found[WAY_NR];
			size_t nr = ways_cheaper(&ways, found);

			ways_text(text, &ways);
			cr_assert(strlen(text) + 1 < WAYS_TEXT_MAX, "%s", text);
			cr_assert_eq(!*text, !nr, "%s", text);
			for (size_t i = 0; i < nr; i++)
				cr_assert(strstr(text, options[found[i]]), "%s: %s", options[found[i]], text);
			cr_assert(!nr || text[strlen(text) - 1] == ')', "%s", text);
		}
	}
}

Test(ways, leaks_takes_the_cheapest_one_that_can_answer_and_changes_nothing)
{
	const unsigned int python = HEAP | BIT(WAY_EXACT) | BIT(WAY_POOLS);
	const struct {
		const char *what;
		bool is_python;
		unsigned int works;
		double core_percent;
		enum way way, next;
		const char *said[3];
	} cases[] = {
		{ "C", false, HEAP, 90, WAY_TRAPS, WAY_INJECT, { "every block", "by traps", "'allocsnap leaks 7 --inject'" } },
		{ "C, and no way in", false, HEAP & ~BIT(WAY_INJECT), 90, WAY_TRAPS, WAY_NR, { "every block", "by traps" } },
		{ "its own samples", false, HEAP | BIT(WAY_OWN), 90, WAY_OWN, WAY_NR, {} },
		{ "an idle Python", true, python, 0.2, WAY_TRAPS, WAY_EXACT, { "each object", "0.2 %", "leaks 7 --inject=exact'" } },
		{ "a busy one", true, python, 40, WAY_POOLS, WAY_EXACT, { "40 %", "--sample pools", "leaks 7 --inject=exact'" } },
		{ "at the border", true, python, LEAKS_BUSY_PERCENT, WAY_TRAPS, WAY_EXACT, { "each object" } },
		{ "of 3.10", true, HEAP | BIT(WAY_POOLS), 40, WAY_POOLS, WAY_NR, { "--sample pools", "each object: --domain python" } },
		{ "without pools", true, HEAP | BIT(WAY_EXACT), 40, WAY_TRAPS, WAY_EXACT, { "slows", "cannot", "--inject=exact'" } },
		{ "with neither", true, HEAP, 40, WAY_TRAPS, WAY_INJECT, { "slows", "leaks 7 --inject'" } },
		{ "a Python with a sampler", true, python | BIT(WAY_OWN), 40, WAY_OWN, WAY_NR, {} },
		{ "a heap with Python in it", false, python, 40, WAY_TRAPS, WAY_INJECT, { "every block", "leaks 7 --inject'" } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct ways ways = ways_of(cases[i].is_python, cases[i].works);
		enum way way = ways_for_leaks(&ways, cases[i].core_percent);
		struct reason line;

		cr_expect_eq(way, cases[i].way, "%s: way %d", cases[i].what, way);
		cr_expect_eq(ways_next_step(&ways), cases[i].next, "%s: then %d", cases[i].what, ways_next_step(&ways));
		ways_leaks_line(&line, 7, &ways, way, cases[i].core_percent);
		for (size_t k = 0; k < ARRAY_SIZE(cases[i].said) && cases[i].said[k]; k++)
			cr_expect(strstr(line.text, cases[i].said[k]), "%s: %s", cases[i].what, line.text);
		cr_expect_eq(!*line.text, way == WAY_OWN, "%s: %s", cases[i].what, line.text);
		cr_expect_eq(!strstr(line.text, "--inject"), cases[i].next == WAY_NR, "%s: %s", cases[i].what, line.text);
	}
}
