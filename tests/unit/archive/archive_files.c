// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which files belong to the archive, which do not, and what the archive reports. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive_fixture.h"
#include "base/array.h"
#include "base/moment.h"
#include "reason.h"
#include "skip.h"

TestSuite(archive_files, .init = archive_enter, .fini = archive_leave, .timeout = 600);

#define OURS "20261121T031500.123Z.snap"

/* ---- others' ---- */

static const char *const foreign[] = {
	"d/" OURS, "d/host/" OURS, "d/notes.txt", "d/host/notes.17", "d/host/a.1/notes.txt",
	"d/host/a.1/2026.snap", "d/host/a.1/sub/" OURS, "d/host/a.1/" OURS ".bak",
	"d/host/a.1/.hidden", "d/host/backup/" OURS, "d/host/a.01/" OURS, "d/.hidden/a.1/" OURS,
	"d/host/a.1/.20261121T031500.123Z.tmp.999999999", "d/.allocsnap.x", "d/host/.allocsnap.1",
	"outside/" OURS, "outside/b.2/" OURS,
};

/* Names of ours that are something else; "b.2" and "elsewhere" are links to folders with snapshots. */
static void put_odd_things(void)
{
	cr_assert_eq(mkdir("d/host/a.1/20261121T031501.000Z.snap", 0700), 0);
	cr_assert_eq(symlink("../../../outside/" OURS, "d/host/a.1/20261121T031502.000Z.snap"), 0);
	cr_assert_eq(mkfifo("d/host/a.1/20261121T031503.000Z.snap", 0600), 0);
	cr_assert_eq(symlink("../../outside", "d/host/c.3"), 0);
	cr_assert_eq(symlink("../outside", "d/elsewhere"), 0);
	cr_assert_eq(mkdir("d/host/x.y", 0700), 0);
	cr_assert_eq(mkdir("d/host/a.1/empty.1", 0700), 0);
}

static const char *const odd[] = {
	"d/host/a.1/20261121T031501.000Z.snap", "d/host/a.1/20261121T031502.000Z.snap",
	"d/host/a.1/20261121T031503.000Z.snap", "d/host/c.3", "d/elsewhere", "d/host/x.y",
	"d/host/a.1/empty.1",
};

Test(archive_files, of_other_programs_are_neither_counted_nor_touched)
{
	struct archive *archive;
	struct archive_totals totals;

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		put_file(foreign[i], FILE_BYTES);
	put_odd_things();
	put_snapshot("a.1", NOON_MS, FILE_BYTES);
	put_snapshot("gone.2", NOON_MS, FILE_BYTES);
	archive = open_archive(1, 1);
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 2);
	archive__make_room(archive);
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 0);
	cr_expect_eq(totals.removed, 2);
	cr_expect_eq(totals.bytes, frame_bytes());
	cr_expect(!is_there("d/host/gone.2"));
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		cr_expect(is_there(foreign[i]), "%s", foreign[i]);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		cr_expect(is_there(odd[i]), "%s", odd[i]);
	archive__close(archive);
}

/* Only the name that a snapshot has here is taken from it. */
Test(archive_files, stay_under_a_hard_link_elsewhere)
{
	struct archive *archive;
	struct stat st;

	cr_assert_eq(link(put_snapshot("a.1", NOON_MS, FILE_BYTES), "kept"), 0);
	archive = open_archive(1, 0);
	archive__make_room(archive);
	cr_expect(!is_there("d/host/a.1"));
	cr_assert_eq(stat("kept", &st), 0);
	cr_expect_eq(st.st_size, (off_t)FILE_BYTES);
	archive__close(archive);
}

/* Folders that have become links since they were read. */
Test(archive_files, behind_a_folder_replaced_by_a_link_are_not_removed)
{
	struct archive *archive;
	struct archive_totals totals;

	put_snapshot("a.1", NOON_MS, FILE_BYTES);
	put_snapshot("a.1", NOON_MS + 1, FILE_BYTES);
	archive = open_archive(1, 0);
	cr_assert_eq(rename("d/host/a.1", "moved"), 0);
	cr_assert_eq(symlink("../../moved", "d/host/a.1"), 0);
	archive__make_room(archive);
	cr_expect(is_there("d/host/a.1"));
	cr_assert_eq(rename("moved", "d/host/b.1"), 0);
	cr_expect_eq(snapshot_nr("b.1"), 2);
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.bytes, frame_bytes());
	cr_expect_eq(totals.removed, 0);
	archive__close(archive);
}

Test(archive_files, removed_by_others_are_not_counted)
{
	struct archive *archive;

	for (int i = 0; i < 4; i++)
		put_snapshot("a.1", NOON_MS + i, FILE_BYTES);
	put_snapshot("b.2", NOON_MS + 9, FILE_BYTES);
	archive = open_archive(1, 0);
	cr_assert_eq(system("rm -r d/host/a.1"), 0);
	archive__make_room(archive);
	expect_log("removed 1 snapshot (4096 B) to stay within --max-disk 1 B");
	expect_log("");
	cr_expect(!is_there("d/host/b.2"));
	archive__close(archive);
}

Test(archive_files, at_paths_outside_the_archive_are_not_counted)
{
	static const char *const paths[] = { "", "x", "/x", "d/a.1/x.snap", "d/host/a.1/none.snap", "d/host/a.1" };
	struct archive *archive = open_archive(1, 0);
	struct archive_totals totals;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		archive__add_saved(archive, paths[i]);
	archive__add_saved(archive, "d/host/a.1/" OURS); /* gone already */
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 0);
	cr_expect_eq(totals.processes, 0);
	archive__close(archive);
}

Test(archive_files, in_a_missing_directory_are_an_error)
{
	const struct archive_bounds bounds = {};
	struct reason why = { "" };

	put_file("file", 1);
	cr_expect_null(archive__open("none", &bounds, &why));
	cr_expect_eq(errno, ENOENT);
	cr_expect_str_eq(why.text, "cannot read the directory none: No such file or directory");
	cr_expect_null(archive__open("file", &bounds, NULL));
	cr_expect_eq(errno, ENOTDIR);
	archive__close(NULL);
}

/* ---- leftovers ---- */

static const char *own_host(void)
{
	static struct utsname machine;

	uname(&machine);
	return machine.nodename;
}

/* The hidden file of a process that sleeps with the file open. stop_writer() kills the process. */
static pid_t start_writer(char path[256])
{
	pid_t pid = fork();

	if (pid) {
		snprintf(path, 256, "d/%s/a.1/.20261121T031500.123Z.tmp.%d", own_host(), pid);
		while (!is_there(path))
			usleep(1000);
		return pid;
	}
	snprintf(path, 256, "d/%s/a.1/.20261121T031500.123Z.tmp.%d", own_host(), getpid());
	open(path, O_CREAT | O_WRONLY, 0600);
	while (true)
		pause();
}

static void stop_writer(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

Test(archive_files, that_are_drafts_are_removed_when_their_writer_has_exited)
{
	char path[256], other[256];
	pid_t pid;

	snprintf(path, sizeof(path), "d/%s/a.1/" OURS, own_host());
	make_dirs_of(path);
	pid = start_writer(path);
	snprintf(other, sizeof(other), "d/elsewhere/a.1/.20261121T031500.123Z.tmp.%d", pid);
	put_file(other, FILE_BYTES);
	archive__close(open_archive(0, 0));
	cr_expect(is_there(path), "of a writer that lives");
	stop_writer(pid);
	archive__close(open_archive(0, 0));
	cr_expect(!is_there(path), "of a writer that is gone");
	cr_expect(is_there(other), "of another host");
}

/* Another process has the PID now. It does not have the file open, so it is not the writer. */
Test(archive_files, that_are_drafts_are_removed_when_the_pid_was_reused)
{
	char path[256];
	struct archive *archive;

	snprintf(path, sizeof(path), "d/%s/a.1/.20261121T031500.123Z.tmp.%d", own_host(), getppid());
	put_file(path, FILE_BYTES);
	archive = open_archive(0, 0);
	cr_expect(!is_there(path));
	snprintf(path, sizeof(path), "d/%s/a.1", own_host());
	cr_expect(!is_there(path), "a folder that is empty now");
	expect_log("removed 1 unfinished file (4096 B) of a recording that was killed");
	expect_log("");
	archive__close(archive);
}

/* symbolize leaves such a draft if it is killed while it replaces an unnamed snapshot by a named one. */
Test(archive_files, that_are_drafts_of_replacements_are_removed)
{
	char path[256], kept[256];

	snprintf(kept, sizeof(kept), "d/%s/a.1/" OURS, own_host());
	put_file(kept, FILE_BYTES);
	snprintf(path, sizeof(path), "d/%s/a.1/." OURS ".tmp.%d", own_host(), getppid());
	put_file(path, FILE_BYTES);
	archive__close(open_archive(0, 0));
	cr_expect(!is_there(path));
	cr_expect(is_there(kept));
}

Test(archive_files, left_by_write_tests_are_removed)
{
	put_file("d/.allocsnap.999998", 0);
	put_file("d/.allocsnap.999997", 1);
	archive__close(open_archive(0, 0));
	cr_expect(!is_there("d/.allocsnap.999998"));
	cr_expect(is_there("d/.allocsnap.999997"));
}

/* ---- disks that are full, read-only, gone ---- */

static bool mount_small_disk(void)
{
	if (unshare(CLONE_NEWNS))
		return false;
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return !mount("none", "d", "tmpfs", 0, "size=256k,nr_inodes=100");
}

static void make_disk(unsigned long flags)
{
	cr_assert_eq(mount("none", "d", NULL, MS_REMOUNT | flags, "size=256k,nr_inodes=100"), 0, "%s",
		     strerror(errno));
}

Test(archive_files, on_a_read_only_disk_are_removed_when_it_is_writable_again)
{
	struct archive_totals totals;
	struct archive *archive;

	if (!mount_small_disk())
		skip_because("may not mount a tmpfs");
	for (int i = 0; i < 10; i++)
		put_snapshot("a.1", NOON_MS + i, FILE_BYTES);
	archive = open_archive(5 * FILE_BYTES, 0);
	make_disk(MS_RDONLY);
	for (int i = 0; i < 3; i++)
		archive__make_room(archive);
	expect_log("cannot remove old snapshots from d: Read-only file system");
	expect_log("");
	expect_bytes(archive);
	make_disk(0);
	archive__make_room(archive);
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 5);
	expect_bytes(archive);
	expect_log("removed 5 snapshots (20.0 KiB) to stay within --max-disk 20.0 KiB");
	archive__close(archive);
	umount("d");
}

/* Another disk at the path: what lay on the first one is not counted any more. */
Test(archive_files, on_another_disk_at_the_same_path_are_counted_afresh)
{
	struct archive_totals totals;
	struct archive *archive;

	for (int i = 0; i < 10; i++)
		put_snapshot("a.1", NOON_MS + i, FILE_BYTES);
	archive = open_archive(5 * FILE_BYTES, 0);
	if (!mount_small_disk())
		skip_because("may not mount a tmpfs");
	put_snapshot("b.2", NOON_MS, FILE_BYTES);
	archive__make_room(archive);
	archive__get_totals(archive, &totals);
	cr_expect_eq(totals.snapshots, 1);
	expect_bytes(archive);
	umount("d");
	cr_expect_eq(snapshot_nr("a.1"), 10);
	archive__make_room(archive);
	cr_expect(snapshot_nr("a.1") <= 5);
	expect_bytes(archive);
	archive__close(archive);
}

/* Each loss is reported once: the first ones by name, with unsafe bytes escaped. */
Test(archive_files, lost_as_last_snapshots_are_reported_by_name)
{
	struct archive *archive = open_archive(0, 0);
	const char *line;

	archive__note_lost_last(archive, "shopd", 123);
	archive__make_room(archive);
	expect_log("last snapshots that could not be written: shopd (123)");
	expect_log("");
	archive__note_lost_last(archive, "a\nb", 1);
	archive__note_lost_last(archive, "", 4194304);
	archive__make_room(archive);
	expect_log("last snapshots that could not be written: a\\x0ab (1),  (4194304)");
	for (int i = 0; i < 1000; i++)
		archive__note_lost_last(archive, i ? "b" : "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 4194304);
	archive__make_room(archive);
	line = next_log();
	cr_expect(strlen(line) < 512 && strstr(line, "\\xff (4194304), b (4194304)") && strstr(line, " and 9"), "%s",
		  line);
	expect_log("");
	archive__close(archive);
}

/* A file that may not be removed (chattr +i) does not stop the sweep; here its folder forbids the removal. */
Test(archive_files, that_cannot_be_removed_do_not_stop_the_sweep)
{
	struct archive *archive;

	if (!mount_small_disk())
		skip_because("may not mount a tmpfs");
	put_snapshot("a.1", NOON_MS, FILE_BYTES);
	put_snapshot("b.2", NOON_MS + 1, FILE_BYTES);
	cr_assert_eq(chmod("d/host/a.1", 0500), 0);
	cr_assert_eq(chown("d", 65534, 65534) | chown("d/host", 65534, 65534) |
		     chown("d/host/a.1", 65534, 65534) | chown("d/host/b.2", 65534, 65534), 0);
	cr_assert_eq(chmod(".", 0711), 0);
	cr_assert_eq(seteuid(65534), 0);
	archive = open_archive(1, 0);
	archive__make_room(archive);
	expect_log("removed 1 snapshot (4096 B) to stay within --max-disk 1 B");
	expect_log("1 snapshot (4096 B) may not be removed: no longer counted");
	cr_expect_eq(snapshot_nr("a.1"), 1);
	cr_expect(!is_there("d/host/b.2"));
	archive__close(archive);
	cr_assert_eq(seteuid(0), 0);
	umount("d");
}

/* ---- archive order ---- */

/* Retention goes by the order in which snapshots were taken, also when the wall clock was set meanwhile. */

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
