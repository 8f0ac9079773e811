// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/interval_control.h"

#include <criterion/criterion.h>

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
