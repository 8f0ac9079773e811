// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Births by site and bin: sorted and counted as a plain count of each key says. */
#include <criterion/criterion.h>

#include "engine/leak_judge.h"
#include "engine/leak_tally.h"

TestSuite(leak_birth_keys);

Test(leak_birth_keys, sorted_and_counted)
{
	static const uint32_t sites[] = { 0, 3, 700, 70000, UINT32_MAX - 1 };
	struct leak_births births = {};
	uint64_t wanted[5][LEAK_BINS] = {};
	uint32_t random = 1;
	size_t at = 0;

	cr_assert_eq(leak_births_sort(&births), 0, "none at all");
	for (int i = 0; i < 1000; i++) {
		uint32_t site = (random = random * 1103515245 + 12345) >> 16 & 0x7fff, bin = site / 5 % LEAK_BINS;

		cr_assert_eq(leak_births_add(&births, sites[site % 5], bin), 0);
		wanted[site % 5][bin]++;
	}
	cr_assert_eq(leak_births_sort(&births), 0);
	for (size_t i = 1; i < births.key_nr; i++)
		cr_assert_leq(births.key[i - 1], births.key[i]);
	for (int i = 0; i < 5; i++)
		for (uint64_t bin = 0; bin < LEAK_BINS; bin++)
			cr_assert_eq(leak_births_count(&births, sites[i] * (uint64_t)LEAK_BINS + bin, &at),
				     wanted[i][bin]);
	cr_assert_eq(at, births.key_nr);
	leak_births_release(&births);
}
