// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/limits/own_links.h"

#include <criterion/criterion.h>

#include "base/clock.h"

#define BEGIN_NS (100 * SECOND_NS)

/* Looks every so often; returns how many looks find no spent budget until it is calm. */
static unsigned int looks_until_calm(struct calm *calm, uint64_t *now_ns, uint64_t every_ns)
{
	unsigned int nr = 1;

	while (*now_ns += every_ns, !calm_look(calm, *now_ns, false))
		cr_assert_lt(nr++, 10000u);
	return nr;
}

Test(calm, lasts_after_five_seconds_of_looks)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	cr_expect_eq(looks_until_calm(&calm, &now_ns, SECOND_NS / 100), 500u);
	cr_expect(calm_look(&calm, now_ns + 1, false), "and it goes on");
}

Test(calm, begins_anew_when_a_look_finds_a_spent_budget)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	for (int i = 0; i < 49; i++)
		cr_expect_not(calm_look(&calm, now_ns += SECOND_NS / 10, false));
	cr_expect_not(calm_look(&calm, now_ns += SECOND_NS / 10, true));
	cr_expect_eq(looks_until_calm(&calm, &now_ns, SECOND_NS / 10), 50u);
}

/* Another process had all processors for a minute: what was spent meanwhile is not known. */
Test(calm, is_not_the_time_in_which_the_recorder_did_not_run)
{
	uint64_t now_ns = BEGIN_NS;
	struct calm calm;

	calm_end(&calm, now_ns);
	cr_expect_eq(looks_until_calm(&calm, &now_ns, 60 * SECOND_NS), 5u);
}
