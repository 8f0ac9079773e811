// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>

#include "collect/recording/map_shares.h"

#define ROOM 10000

/* The holders take one each in turn, as long as the share allows. Returns the sum, and the least of one holder. */
static uint64_t take_all(uint64_t holder_nr, uint64_t *ret_least)
{
	uint64_t held[64] = {}, sum = 0, before;

	do {
		before = sum;
		for (uint64_t i = 0; i < holder_nr; i++)
			if (sum < ROOM && held[i] < fair_most(ROOM, sum)) {
				held[i]++;
				sum++;
			}
	} while (sum != before);
	*ret_least = held[holder_nr - 1];
	return sum;
}

Test(fair, share_of_a_single_holder_is_three_quarters)
{
	uint64_t least;

	cr_expect_eq(take_all(1, &least), ROOM / 4 * 3);
	cr_expect_eq(fair_most(ROOM, 0), ROOM / 4 * 3);
}

Test(fair, shares_of_several_holders_are_equal_and_leave_some_free)
{
	for (uint64_t nr = 2; nr <= 20; nr++) {
		uint64_t least, sum = take_all(nr, &least), share = 3 * ROOM / (3 * nr + 1);

		cr_expect_lt(sum, ROOM, "%lu have all", nr);
		cr_expect_geq(least + 2, share, "%lu: one has %lu of %lu", nr, least, share);
	}
}

Test(fair, share_is_never_zero)
{
	cr_expect_eq(fair_most(ROOM, ROOM), ROOM / 64 + 1);
	cr_expect_eq(fair_most(ROOM, 2 * ROOM), ROOM / 64 + 1);
	cr_expect_eq(fair_most(1, 0), 1);
	cr_expect_eq(fair_most(1, 1), 1);
}
