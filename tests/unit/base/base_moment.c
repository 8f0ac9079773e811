// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/moment.h"

#define OURS "20261121T031500.123Z.snap"
#define HOUR_NS 3600000000000ULL

Test(moment, names_of_snapshots_are_recognized)
{
	static const struct {
		const char *name;
		bool is_ours;
	} cases[] = {
		{ OURS, true }, { "20261121T031500.123Z-2.snap", true },
		{ "20261121T031500.123Z-100000.snap", true }, { "19700101T000000.000Z.snap", true },
		{ "20240229T235959.999Z.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.86400123.snap", true },
		{ "20261121T031500.123Z.0000000a.0-2.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.086400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.snap", false },
		{ "20261121T031500.123Z.6F3C21AA.86400123.snap", false }, { "20261121T031500.123Z.6f3c21a.86400123.snap", false },
		{ "20261121T031500.123Z.6f3c21aa1.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa..snap", false },
		{ "20261121T031500.123Z.00000000.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.-6.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.99999999999999999999.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.864-1.snap", false }, { "20261121T031500.123Z..snap", false },
		{ "20261121T031500.123Z-2.6f3c21aa.86400123.snap", false },
		{ "", false }, { ".snap", false }, { "20261121T031500.123Z", false },
		{ "20261121T031500.123Z.snap.zst", false }, { "20261121T031500.123Z.snap~", false },
		{ ".20261121T031500.123Z.snap", false }, { "a20261121T031500.123Z.snap", false },
		{ "20261121T031500.123Z-1.snap", false }, { "20261121T031500.123Z-02.snap", false },
		{ "20261121T031500.123Z-.snap", false }, { "20261121T031500.123Z-2-3.snap", false },
		{ "20261121T031500.123Z--2.snap", false }, { "20261121T031500.123Z- 2.snap", false },
		{ "20261121T031500.123Z-1048576.snap", false },
		{ "20261121T031500.123Z-99999999999.snap", false },
		{ "20261121T031500Z.snap", false }, { "20261121T031500.12Z.snap", false },
		{ "20261121 031500.123Z.snap", false }, { "20260229T031500.123Z.snap", false },
		{ "20261321T031500.123Z.snap", false }, { "20261121T241500.123Z.snap", false },
		{ "20261121T031560.123Z.snap", false }, { "2026 121T031500.123Z.snap", false },
		{ "19691231T235959.999Z.snap", false }, { "99991121T031500.123Z.snap", false },
		{ "20261121T031500.-23Z.snap", false }, { "20261121T031500.123z.snap", false },
	};
	char text[MOMENT_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moment moment = { .nr = 7 };

		cr_expect_eq(moment_parse(cases[i].name, &moment), cases[i].is_ours, "%s", cases[i].name);
		if (cases[i].is_ours)
			cr_expect_str_eq(moment_name(text, &moment), cases[i].name);
		else
			cr_expect_eq(moment.nr, 7);
	}
}

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
