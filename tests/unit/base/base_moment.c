// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/moment.h"

#define HOUR_NS 3600000000000ULL

static const struct moment_order order = { .item_size = sizeof(struct moment) };

/* Sorts any permutation into the order in which the moments are given. */
static void expect_order(const struct moment *moment, size_t nr)
{
	struct moment shuffled[64];

	srand(1);
	for (int round = 0; round < 200; round++) {
		memcpy(shuffled, moment, nr * sizeof(*moment));
		for (size_t i = nr - 1; i > 0; i--) {
			size_t k = rand() % (i + 1);
			struct moment other = shuffled[i];

			shuffled[i] = shuffled[k];
			shuffled[k] = other;
		}
		cr_assert_eq(moments_sort(shuffled, nr, &order), 0);
		cr_assert_arr_eq(shuffled, moment, nr * sizeof(*moment), "round %d", round);
	}
}

Test(moment, of_one_boot_are_in_the_order_of_its_monotonic_clock)
{
	const struct moment moments[] = {
		{ 9 * HOUR_NS, 1, 7, 1 }, { 5 * HOUR_NS, 2, 7, 1 }, { 7 * HOUR_NS, 3, 7, 1 }, { 7 * HOUR_NS, 3, 7, 2 },
		{ 7 * HOUR_NS, 3, 7, 10 }, { 0, 4, 7, 1 }, { 6 * HOUR_NS, 5, 7, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
}

/* By pairs this would be a circle: a before b, b before another boot, and that one before a. */
Test(moment, of_several_boots_have_one_order)
{
	const struct moment moments[] = {
		{ 10 * HOUR_NS, 1 * HOUR_NS, 7, 1 }, { 5 * HOUR_NS, 2 * HOUR_NS, 7, 1 }, { 7 * HOUR_NS, 1, 8, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
	cr_expect_lt(moment_compare(&moments[0], &moments[1], NULL), 0);
	cr_expect_lt(moment_compare(&moments[1], &moments[2], NULL), 0);
	cr_expect_lt(moment_compare(&moments[2], &moments[0], NULL), 0);
}

Test(moment, without_a_boot_are_in_the_order_of_the_wall_clock)
{
	const struct moment moments[] = {
		{ 1 * HOUR_NS, 9, 0, 1 }, { 2 * HOUR_NS, 8, 0, 1 }, { 3 * HOUR_NS, 1, 7, 1 }, { 4 * HOUR_NS, 7, 0, 1 },
	};

	expect_order(moments, ARRAY_SIZE(moments));
}

/* Files may say anything: numbers must not wrap around, or there is no order. */
Test(moment, have_one_order_whatever_the_numbers)
{
	static const uint64_t numbers[] = { 0, 1, HOUR_NS, INT64_MAX, 1ULL << 63, UINT64_MAX - 1, UINT64_MAX };
	struct moment first[64], again[64];

	srand(2);
	for (int round = 0; round < 500; round++) {
		for (size_t i = 0; i < 64; i++)
			first[i] = (struct moment){ numbers[rand() % 7], numbers[rand() % 7], rand() % 5, 1 + i };
		cr_assert_eq(moments_sort(first, 64, &order), 0);
		for (size_t i = 0; i < 64; i++)
			again[i] = first[(i * 13 + round) % 64];
		cr_assert_eq(moments_sort(again, 64, &order), 0);
		cr_assert_arr_eq(first, again, sizeof(first));
	}
}
