// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>

#include "archive/write_errors.h"

Test(archive_outage, is_reported_when_it_begins_and_when_it_changes)
{
	struct write_errors write_errors = {};

	cr_expect(outage_count_lost(&write_errors, -ENOSPC));
	cr_expect(!outage_count_lost(&write_errors, -ENOSPC));
	cr_expect(outage_count_lost(&write_errors, -EROFS));
	cr_expect(!outage_count_lost(&write_errors, -EROFS));
	cr_expect_eq(write_errors.lost, 4);
}

Test(archive_outage, ends_after_a_pass_without_losses)
{
	struct write_errors write_errors = {};

	cr_expect_eq(write_errors_end_pass(&write_errors), 0);
	outage_count_saved(&write_errors);
	cr_expect_eq(write_errors_end_pass(&write_errors), 0);
	outage_count_lost(&write_errors, -EIO);
	outage_count_saved(&write_errors);
	cr_expect_eq(write_errors_end_pass(&write_errors), 0);
	cr_expect_eq(write_errors_end_pass(&write_errors), 0, "an empty pass says nothing");
	cr_expect(!outage_count_lost(&write_errors, -EIO));
	cr_expect_eq(write_errors_end_pass(&write_errors), 0);
	outage_count_saved(&write_errors);
	cr_expect_eq(write_errors_end_pass(&write_errors), 2);
	outage_count_saved(&write_errors);
	cr_expect_eq(write_errors_end_pass(&write_errors), 0);
	cr_expect(outage_count_lost(&write_errors, -EIO));
}
