// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>

#include "record/retention/write_errors.h"

Test(archive_outage, is_reported_when_it_begins_and_when_it_changes)
{
	struct outage outage = {};

	cr_expect(outage_lost(&outage, -ENOSPC));
	cr_expect(!outage_lost(&outage, -ENOSPC));
	cr_expect(outage_lost(&outage, -EROFS));
	cr_expect(!outage_lost(&outage, -EROFS));
	cr_expect_eq(outage.lost, 4);
}

Test(archive_outage, ends_after_a_pass_without_losses)
{
	struct outage outage = {};

	cr_expect_eq(outage_end_pass(&outage), 0);
	outage_saved(&outage);
	cr_expect_eq(outage_end_pass(&outage), 0);
	outage_lost(&outage, -EIO);
	outage_saved(&outage);
	cr_expect_eq(outage_end_pass(&outage), 0);
	cr_expect_eq(outage_end_pass(&outage), 0, "an empty pass says nothing");
	cr_expect(!outage_lost(&outage, -EIO));
	cr_expect_eq(outage_end_pass(&outage), 0);
	outage_saved(&outage);
	cr_expect_eq(outage_end_pass(&outage), 2);
	outage_saved(&outage);
	cr_expect_eq(outage_end_pass(&outage), 0);
	cr_expect(outage_lost(&outage, -EIO));
}
