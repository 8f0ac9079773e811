// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* How far a work is, as a text. */
#include <criterion/criterion.h>

#include "base/clock.h"
#include "base/progress.h"

static void expect_text(const char *unit, uint64_t all, uint64_t done, uint64_t spent_ns, const char *want)
{
	struct progress progress = progress_begin("reading", unit, all);
	char text[PROGRESS_TEXT_MAX];

	cr_expect_str_eq(progress_text(text, &progress, done, spent_ns), want);
}

Test(progress, has_part_whole_rate_and_end)
{
	expect_text("files", 4000, 120, 3 * SECOND_NS, "reading: 120 of 4000 files (3 %), 40/s, 97 s left");
	expect_text("files", 40, 1, 4 * SECOND_NS, "reading: 1 of 40 files (2 %), 0.2/s, 156 s left");
	expect_text(NULL, 64 << 20, 16 << 20, 2 * SECOND_NS,
		    "reading: 16.0 MiB of 64.0 MiB (25 %), 8192 KiB/s, 6 s left");
}

Test(progress, makes_up_no_end)
{
	expect_text("files", 0, 120, 3 * SECOND_NS, "reading: 120 files, 40/s");
	expect_text("files", 100, 120, 3 * SECOND_NS, "reading: 120 files, 40/s");
	expect_text("files", 40, 0, 3 * SECOND_NS, "reading: 0 of 40 files (0 %), 0.0/s");
	expect_text("files", 40, 0, 0, "reading: 0 of 40 files (0 %), 0.0/s");
}
