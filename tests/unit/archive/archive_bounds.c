// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "archive_fixture.h"
#include "full.h"

TestSuite(archive_bounds, .init = archive_enter, .fini = archive_leave, .timeout = 600);

#define HOUR_NS 3600000000000ULL
#define MINUTE_MS 60000ULL

/* The disk space of one snapshot, and of a folder with few of them, on this file system. */
static uint64_t file_bytes, folder_bytes;

static uint64_t room_for(int folders, int files)
{
	return frame_bytes() + folders * folder_bytes + files * file_bytes;
}

static void put_minutes(const char *folder, int from, int to)
{
	struct stat st;

	for (int i = from; i < to; i++) {
		const char *path = put_snapshot(folder, NOON_MS + i * MINUTE_MS, FILE_BYTES);

		cr_assert_eq(stat(path, &st), 0);
		file_bytes = st.st_blocks * 512;
	}
	cr_assert_eq(stat("d/host", &st), 0);
	folder_bytes = st.st_blocks * 512;
}

static void make_room_once(uint64_t max_disk_bytes, uint64_t keep_ns)
{
	struct archive *archive = open_archive(max_disk_bytes, keep_ns);

	archive__make_room(archive);
	cr_expect(!max_disk_bytes || disk_bytes() <= max_disk_bytes);
	expect_bytes(archive);
	archive__close(archive);
}

Test(archive_bounds, keep_everything_when_there_are_none)
{
	put_minutes("a.1", 0, 10);
	make_room_once(0, 0);
	cr_expect_eq(snapshot_nr("a.1"), 10);
}

Test(archive_bounds, the_oldest_go)
{
	put_minutes("a.1", 0, 10);
	make_room_once(room_for(1, 8), 0);
	expect_minutes("a.1", (int[]){ 0, 3, 4, 5, 6, 7, 8, 9, -1 });
}

Test(archive_bounds, keep_the_first_and_the_newest_snapshot_longest)
{
	put_minutes("a.1", 0, 9);
	make_room_once(room_for(1, 2), 0);
	expect_minutes("a.1", (int[]){ 0, 8, -1 });
	make_room_once(room_for(1, 1), 0);
	expect_minutes("a.1", (int[]){ 8, -1 });
	make_room_once(room_for(0, 1), 0);
	cr_expect(!is_there("d/host/a.1"));
}

Test(archive_bounds, the_oldest_go_whoever_has_them)
{
	put_minutes("many.1", 4, 12);
	put_minutes("few.2", 0, 5);
	make_room_once(room_for(2, 9), 0);
	expect_minutes("few.2", (int[]){ 0, 4, -1 });
	expect_minutes("many.1", (int[]){ 4, 6, 7, 8, 9, 10, 11, -1 });
}

Test(archive_bounds, keep_the_newest_of_each_process_while_another_has_two)
{
	char folder[16], newest[64];

	for (int i = 1; i <= 20; i++) {
		snprintf(folder, sizeof(folder), "p.%d", i);
		put_minutes(folder, i, i + i);
	}
	make_room_once(room_for(20, 20), 0);
	for (int i = 1; i <= 20; i++) {
		snprintf(folder, sizeof(folder), "p.%d", i);
		expect_minutes(folder, (int[]){ i + i - 1, -1 });
	}
	make_room_once(room_for(15, 15), 0);
	for (int i = 1; i <= 20; i++) {
		snprintf(newest, sizeof(newest), "d/host/p.%d", i);
		cr_expect_eq(is_there(newest), i > 5, "%s", newest);
	}
}

Test(archive_bounds, of_a_long_recording_the_first_and_the_last_ones_are_kept)
{
	struct archive *archive;

	put_minutes("a.1", 0, 8);
	archive = open_archive(room_for(1, 8), 0);
	for (int i = 8; i <= 100; i++) {
		archive__add_saved(archive, put_snapshot("a.1", NOON_MS + i * MINUTE_MS, FILE_BYTES));
		archive__make_room(archive);
		expect_bytes(archive);
	}
	archive__close(archive);
	expect_minutes("a.1", (int[]){ 0, 94, 95, 96, 97, 98, 99, 100, -1 });
}

Test(archive_bounds, remove_snapshots_older_than_keep_even_when_there_is_room)
{
	uint64_t now = wall_ms();

	put_snapshot("a.1", now - 3 * 3600000ULL, FILE_BYTES);
	put_snapshot("a.1", now - 3600000ULL - MINUTE_MS, FILE_BYTES);
	put_snapshot("a.1", now - 3600000ULL + MINUTE_MS, FILE_BYTES);
	put_snapshot("a.1", now + 3600000ULL, FILE_BYTES); /* the clock has been set back since */
	put_snapshot("old.2", now - 2 * 3600000ULL, FILE_BYTES);
	make_room_once(0, HOUR_NS);
	cr_expect_eq(snapshot_nr("a.1"), 2);
	cr_expect(!is_there("d/host/old.2"));
	make_room_once(0, UINT64_MAX);
	cr_expect_eq(snapshot_nr("a.1"), 2);
}

/* Holes in files are not counted; the folders, which grow, are. */
Test(archive_bounds, count_the_bytes_that_the_disk_uses)
{
	struct archive *archive;
	struct archive_totals totals;
	const char *path = put_snapshot("hole.1", NOON_MS, 0);

	cr_assert_eq(truncate(path, 1 << 30), 0);
	put_snapshot("large.2", NOON_MS, 1000 * KIB);
	archive = open_archive(0, 0);
	expect_bytes(archive);
	archive__get_totals(archive, &totals);
	cr_expect(totals.bytes < 2000 * KIB);
	for (int i = 1; i < 300; i++)
		archive__add_saved(archive, put_snapshot("large.2", NOON_MS + i, 0));
	expect_bytes(archive);
	archive__close(archive);
}

#define PROCESSES 50

/* With processes that end and others that come, and a clock that steps back in each 50th pass. */
Test(archive_bounds, hold_at_every_moment_for_thousands_of_snapshots)
{
	struct archive *archive = open_archive(2000 * KIB, 0);
	uint64_t bound = 2000 * KIB, ms = NOON_MS;
	struct archive_totals totals;
	int passes = full_or(200, 60);
	char folder[32];

	for (int pass = 0; pass < passes; pass++) {
		ms += pass % 50 == 49 ? -(uint64_t)90000 : 60000;
		for (int i = 0; i < PROCESSES; i++) {
			snprintf(folder, sizeof(folder), "p.%d", i + 1 + pass / 20 * 5);
			archive__add_saved(archive, put_snapshot(folder, ms + (pass % 50 == 49),
							     (i % 7) * KIB));
			archive__make_room(archive);
			archive__get_totals(archive, &totals);
			cr_assert(totals.bytes <= bound, "%ju bytes", (uintmax_t)totals.bytes);
		}
		cr_assert(disk_bytes() <= bound, "%ju bytes in pass %d", (uintmax_t)disk_bytes(), pass);
		expect_bytes(archive);
	}
	cr_expect_eq(totals.snapshots + totals.removed, PROCESSES * passes);
	for (int i = 0; i < PROCESSES; i++) {
		snprintf(folder, sizeof(folder), "p.%d", i + 1 + (passes - 1) / 20 * 5);
		cr_expect(snapshot_nr(folder) > 0, "%s has none", folder);
	}
	archive__close(archive);
}

Test(archive_bounds, hold_for_short_lived_processes)
{
	struct archive *archive;
	struct archive_totals totals;
	int shorts = full_or(3000, 600);
	char folder[32];

	put_minutes("long.1", 0, 3);
	archive = open_archive(room_for(20, 20), 0);
	for (int i = 0; i < shorts; i++) {
		snprintf(folder, sizeof(folder), "short.%d", 2 + i % 60);
		archive__add_saved(archive, put_snapshot(folder, NOON_MS + i * 60000ULL, FILE_BYTES));
		archive__make_room(archive);
		if (i % 100 == 0)
			expect_bytes(archive);
	}
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 20);
	cr_expect_eq(totals.processes, 20);
	cr_expect_eq(totals.removed, (uint64_t)shorts + 3 - 20);
	archive__close(archive);
}
