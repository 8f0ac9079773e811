// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The time that last snapshots of one user's processes may take. */
#include <criterion/criterion.h>

#include "record/last_share.h"

#define SECOND 1000000000ULL

static struct last_share share;

Test(service_last_share, allows_half_an_interval_at_once_for_each_user)
{
	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, 1000 * SECOND);
	last_share_consume(&share, 7, 5 * SECOND - 1);
	cr_expect(last_share_allows(&share, 7));
	last_share_consume(&share, 7, 1);
	cr_expect_not(last_share_allows(&share, 7));
	cr_expect(last_share_allows(&share, 8));
}

Test(service_last_share, allows_half_of_the_time_in_the_long_run)
{
	uint64_t taken = 0, now = 1000 * SECOND;

	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, now);
	for (int pass = 0; pass < 1000; pass++) {
		now += SECOND / 3;
		last_share_advance(&share, now);
		for (; last_share_allows(&share, 7); taken += SECOND / 100)
			last_share_consume(&share, 7, SECOND / 100);
	}
	cr_expect_geq(taken, (now - 1000 * SECOND) / 2);
	cr_expect_leq(taken, (now - 1000 * SECOND) / 2 + 6 * SECOND);
}

Test(service_last_share, allows_no_more_to_a_user_that_used_nothing_for_long)
{
	last_share_init(&share, 10 * SECOND);
	last_share_advance(&share, 5000 * SECOND);
	last_share_consume(&share, 7, 5 * SECOND);
	cr_expect_not(last_share_allows(&share, 7));
}

Test(service_last_share, allows_some_snapshots_in_a_short_interval)
{
	last_share_init(&share, SECOND / 100);
	last_share_advance(&share, 5000 * SECOND);
	last_share_consume(&share, 7, SECOND / 3);
	cr_expect(last_share_allows(&share, 7));
}
