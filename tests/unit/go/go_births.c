// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Times of birth of samples that are only counted. */
#include "go/go_births.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static uint64_t birth_of(const struct go_births *births, uint64_t sample)
{
	size_t i = 0;

	while (i < births->run_nr && births->run[i].upto <= sample)
		i++;
	cr_assert_lt(i, births->run_nr, "sample %lu", sample);
	return births->run[i].birth_ns;
}

static uint64_t live_of_births(const struct go_births *births)
{
	return births->run_nr ? births->run[births->run_nr - 1].upto : 0;
}

TestSuite(go_births);

Test(go_births, are_not_before_the_last_reading_with_fewer)
{
	struct go_births births = {};

	cr_assert_eq(go_births_note(&births, 3, 100), 0);
	cr_assert_eq(go_births_note(&births, 5, 200), 0);
	cr_assert_eq(go_births_note(&births, 4, 300), 0);
	cr_assert_eq(go_births_note(&births, 6, 400), 0);
	for (uint64_t i = 0; i < 3; i++)
		cr_expect_eq(birth_of(&births, i), 100);
	cr_expect_eq(birth_of(&births, 3), 200);
	cr_expect_eq(birth_of(&births, 4), 400);
	cr_expect_eq(birth_of(&births, 5), 400);
	cr_assert_eq(go_births_note(&births, 0, 500), 0);
	cr_expect_eq(live_of_births(&births), 0);
	cr_assert_eq(go_births_note(&births, 1, 600), 0);
	cr_expect_eq(birth_of(&births, 0), 600);
	go_births_release(&births);
}

/* A thousand random walks beside a list of each sample's birth. Where times were joined they are earlier, and never later. */
Test(go_births, are_those_of_a_list_of_samples)
{
	static uint64_t list[5000];

	srand(1);
	for (int walk = 0; walk < 1000; walk++) {
		struct go_births births = {};
		uint64_t live = 0;
		int steps = walk % 10 ? 60 : 1500;

		for (int step = 1; step <= steps; step++) {
			uint64_t now = walk % 10 ? (uint64_t)rand() % 40 : live + rand() % 4;

			for (; live < now; live++)
				list[live] = step;
			live = now;
			cr_assert_eq(go_births_note(&births, live, step), 0);
			cr_assert_eq(live_of_births(&births), live);
			cr_assert_leq(births.run_nr, GO_BIRTH_RUNS);
		}
		for (uint64_t i = 0; i < live; i++)
			cr_assert(walk % 10 ? birth_of(&births, i) == list[i] : birth_of(&births, i) <= list[i]);
		go_births_release(&births);
	}
}
