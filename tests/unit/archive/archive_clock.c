// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Clocks that are set, and the age limit after that. */
#include <criterion/criterion.h>
#include <time.h>

#include "archive_fixture.h"

#define HOUR_MS 3600000ULL
#define DAY_MS (24 * HOUR_MS)
#define BOOT_MS (5 * DAY_MS)
#define KEEP_MS (7 * DAY_MS)

/* The time of both clocks; after() moves them by `ms` and returns the archive's time. */
static struct keep_clock clock_;
static uint64_t wall, boot;

static void begin(uint64_t newest)
{
	wall = NOON_MS;
	boot = BOOT_MS;
	keep_clock_begin(&clock_, newest, wall, boot);
}

static uint64_t after(uint64_t ms)
{
	wall += ms;
	boot += ms;
	return keep_clock_look(&clock_, KEEP_MS, wall, boot);
}

Test(archive_clock, is_the_wall_clock)
{
	begin(0);
	cr_expect_eq(after(0), NOON_MS);
	cr_expect_eq(after(HOUR_MS), NOON_MS + HOUR_MS);
	wall += KEEP_CLOCK_STEP_MS / 2;
	cr_expect_eq(after(HOUR_MS), wall, "it was corrected");
	cr_expect_eq(after(100 * DAY_MS), wall, "nobody looked for long");
}

Test(archive_clock, follows_a_wall_clock_set_forward_after_the_keep_time)
{
	uint64_t before;

	begin(0);
	before = after(HOUR_MS);
	wall += 365 * DAY_MS;
	cr_expect_eq(after(HOUR_MS), before + HOUR_MS);
	cr_expect_eq(after(KEEP_MS - 1), before + HOUR_MS + KEEP_MS - 1);
	cr_expect_eq(after(1), wall);
}

Test(archive_clock, waits_again_when_the_wall_clock_is_set_forward_again)
{
	uint64_t before;

	begin(0);
	before = after(HOUR_MS);
	wall += 365 * DAY_MS;
	after(KEEP_MS - HOUR_MS);
	wall += 365 * DAY_MS;
	after(HOUR_MS);
	cr_expect_eq(after(HOUR_MS), before + KEEP_MS + HOUR_MS);
	cr_expect_eq(after(KEEP_MS), wall);
}

Test(archive_clock, follows_a_wall_clock_set_back_at_once)
{
	begin(0);
	wall -= 30 * DAY_MS;
	cr_expect_eq(after(HOUR_MS), NOON_MS - 30 * DAY_MS + HOUR_MS);
}

Test(archive_clock, follows_a_corrected_wall_clock_at_once)
{
	begin(0);
	wall += 365 * DAY_MS;
	after(HOUR_MS);
	wall -= 365 * DAY_MS;
	cr_expect_eq(after(HOUR_MS), wall);
}

Test(archive_clock, starts_at_the_newest_snapshot)
{
	begin(NOON_MS - 30 * DAY_MS);
	cr_expect_eq(after(HOUR_MS), NOON_MS - 30 * DAY_MS + HOUR_MS);
	cr_expect_eq(after(KEEP_MS - HOUR_MS), wall);
	begin(NOON_MS + 30 * DAY_MS);
	cr_expect_eq(after(HOUR_MS), wall, "the snapshot is of a clock that was wrong");
}

TestSuite(archive_start, .init = archive_enter, .fini = archive_leave, .timeout = 600);

/* The machine begins with a clock that is two years ahead. */
Test(archive_start, keeps_existing_snapshots_when_the_clock_is_years_ahead)
{
	struct archive *archive;
	uint64_t then = wall_ms() - 700 * DAY_MS;

	put_snapshot("a.1", then, FILE_BYTES);
	put_snapshot("a.1", then - HOUR_MS, FILE_BYTES);
	put_snapshot("b.2", then - 8 * DAY_MS, FILE_BYTES);
	archive = open_archive(0, KEEP_MS * 1000000);
	archive__make_room(archive);
	expect_log("no snapshots for 16800.0 h, or the clock was set forward: --keep does not count these hours");
	expect_log("removed 1 snapshot (4096 B) older than --keep allows");
	expect_log("");
	archive__add_saved(archive, put_snapshot("a.1", wall_ms(), FILE_BYTES));
	archive__make_room(archive);
	expect_log("");
	cr_expect_eq(snapshot_nr("a.1"), 3);
	cr_expect_eq(snapshot_nr("b.2"), 0);
	archive__close(archive);
}
