// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Retention goes by the order in which snapshots were taken, also when the wall clock was set meanwhile. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive_fixture.h"
#include "base/moment.h"

TestSuite(archive_order, .init = archive_enter, .fini = archive_leave, .timeout = 600);

#define MINUTE_NS 60000000000ULL
#define HOUR 60 /* minutes */
#define YEAR (365 * 24 * HOUR)

/* The path of a snapshot, until the next call: taken `monotonic` minutes after the boot, at `wall` by the clock. */
static const char *place(const char *folder, int wall, int monotonic)
{
	const struct moment moment = { (NOON_MS / 60000 + wall) * MINUTE_NS, monotonic * MINUTE_NS, 0x6f3c21aa, 1 };
	char name[MOMENT_NAME_MAX];
	static char path[256];

	snprintf(path, sizeof(path), "d/host/%s/%s", folder, moment_name(name, &moment));
	return path;
}

static const char *put(const char *folder, int wall, int monotonic)
{
	put_file(place(folder, wall, monotonic), FILE_BYTES);
	return place(folder, wall, monotonic);
}

/* The disk space of some snapshots in one folder. */
static uint64_t room(int files)
{
	struct stat host, file;

	cr_assert(!stat("d/host", &host) && !stat(put("room.1", 0, 1), &file));
	unlink(place("room.1", 0, 1));
	rmdir("d/host/room.1");
	return frame_bytes() + host.st_blocks * 512 + files * file.st_blocks * 512;
}

static void expect_kept(const char *folder, int wall, int monotonic, bool is_kept)
{
	cr_expect_eq(is_there(place(folder, wall, monotonic)), is_kept, "%s, taken %d min after the boot", folder,
		     monotonic);
}

static void make_room_once(uint64_t max_disk_bytes, uint64_t keep_ns)
{
	struct archive *archive = open_archive(max_disk_bytes, keep_ns);

	archive__make_room(archive);
	archive__close(archive);
}

Test(archive_order, of_files_that_are_found_is_that_of_the_monotonic_clock)
{
	put("a.1", 2 * HOUR, 1), put("a.1", 2 * HOUR + 1, 2), put("a.1", 3, 3), put("a.1", 4, 4), put("a.1", 5, 5);
	make_room_once(room(3), 0);
	expect_kept("a.1", 2 * HOUR, 1, true);
	expect_kept("a.1", 2 * HOUR + 1, 2, false);
	expect_kept("a.1", 3, 3, false);
	expect_kept("a.1", 4, 4, true);
	expect_kept("a.1", 5, 5, true);
	make_room_once(room(1), 0);
	expect_kept("a.1", 5, 5, true);
}

/* Back, forward, and further back, while it runs. */
Test(archive_order, of_files_that_are_added_is_that_of_the_monotonic_clock)
{
	static const int wall[] = { 0, 1, -2 * HOUR, -2 * HOUR + 1, 4, 5, -YEAR, -YEAR + 1, YEAR, 9 };
	struct archive *archive;
	uint64_t most;

	put("a.1", wall[0], 1);
	most = room(3);
	archive = open_archive(most, 0);
	for (int i = 1; i < 10; i++) {
		archive__add_saved(archive, put("a.1", wall[i], i + 1));
		archive__make_room(archive);
		expect_kept("a.1", wall[i], i + 1, true);
		expect_kept("a.1", wall[i - 1], i, true);
		cr_expect(disk_bytes() <= most);
		expect_bytes(archive);
	}
	expect_kept("a.1", wall[0], 1, true);
	archive__close(archive);
}

Test(archive_order, is_one_of_all_processes)
{
	put("a.1", 2 * HOUR, 1), put("b.2", 2 * HOUR + 1, 2), put("b.2", 2 * HOUR + 2, 3), put("b.2", 2 * HOUR + 3, 4);
	put("a.1", 4, 5), put("a.1", 5, 6), put("a.1", 6, 7);
	make_room_once(disk_bytes() - 1, 0);
	expect_kept("b.2", 2 * HOUR + 2, 3, false);
	expect_kept("a.1", 4, 5, true);
	make_room_once(disk_bytes() - 1, 0);
	expect_kept("a.1", 4, 5, false);
}

/* A clock that was a year ahead when a snapshot was taken does not keep it for a year. */
Test(archive_order, is_that_of_ages)
{
	int now = (int64_t)(wall_ms() - NOON_MS) / 60000;

	put("a.1", now + YEAR, 10), put("a.1", now - 20, 50), put("a.1", now, 70);
	make_room_once(0, 30 * MINUTE_NS);
	expect_kept("a.1", now + YEAR, 10, false);
	expect_kept("a.1", now - 20, 50, true);
	expect_kept("a.1", now, 70, true);
}
