// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/ranges.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/array.h"

static const struct {
	uint64_t low, high;
	uint32_t id;
} filled[] = {
	{ 100, 200, 1 }, { 200, 300, 2 }, { 120, 150, 3 }, /* inside 1 */
	{ 400, 500, 5 }, { 400, 500, 4 }, { 400, 450, 6 }, /* folded: 6 is shorter, 4 before 5 */
	{ 600, 600, 7 }, { 700, 650, 8 }, { UINT64_MAX - 1, UINT64_MAX, 9 },
};

static const struct {
	uint64_t address;
	uint32_t want;
} asked[] = {
	{ 0, RANGE_NONE },  { 99, RANGE_NONE },	 { 100, 1 },	     { 119, 1 },
	{ 120, 3 },	    { 149, 3 },		 { 150, 1 },	     { 199, 1 },
	{ 200, 2 },	    { 300, RANGE_NONE }, { 400, 6 },	     { 450, 4 },
	{ 600, RANGE_NONE }, { 680, RANGE_NONE }, { UINT64_MAX - 1, 9 }, { UINT64_MAX, RANGE_NONE },
};

Test(symbols_ranges, find_the_innermost_range)
{
	struct ranges ranges = {};

	cr_expect_eq(ranges_find(&ranges, 1), RANGE_NONE);
	for (size_t i = 0; i < ARRAY_SIZE(filled); i++)
		cr_assert(!ranges_add(&ranges, filled[i].low, filled[i].high, filled[i].id));
	ranges_sort(&ranges);
	for (size_t i = 0; i < ARRAY_SIZE(asked); i++)
		cr_expect_eq(ranges_find(&ranges, asked[i].address), asked[i].want, "%lu",
			     asked[i].address);
	ranges_release(&ranges);
}

/* The ranges overlap seldom, as in honest files. */
Test(symbols_ranges, find_the_same_as_a_linear_search)
{
	struct ranges ranges = {};
	uint64_t low[1000], high[1000];

	srand(1);
	for (size_t i = 0; i < ARRAY_SIZE(low); i++) {
		low[i] = rand() % 50000;
		high[i] = low[i] + rand() % 100;
		cr_assert(!ranges_add(&ranges, low[i], high[i], i));
	}
	ranges_sort(&ranges);
	for (uint64_t address = 0; address < 50200; address++) {
		uint32_t found = ranges_find(&ranges, address);
		bool any = false;

		for (size_t i = 0; i < ARRAY_SIZE(low); i++)
			any |= low[i] <= address && address < high[i];
		cr_expect_eq(any, found != RANGE_NONE, "%lu", address);
		if (found != RANGE_NONE)
			cr_expect(low[found] <= address && address < high[found], "%lu", address);
	}
	ranges_release(&ranges);
}
