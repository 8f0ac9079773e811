// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "archive_fixture.h"
#include "base/array.h"
#include "base/file_replace.h"
#include "full.h"
#include "snapshot/private.h"
#include "snapshot_sample.h"

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

/* ---- archive killed ---- */

/* SIGKILL in the middle of writing, and calls of the kernel that fail there. */

#define KILLS 50
#define TRACES 20000
#define NAMES 1000

static struct snapshot_builder *builder;
static char folder[128];

static void enter(void)
{
	const struct snap_trace trace = { .size = 1 };
	struct utsname machine;
	char path[160];

	archive_enter();
	uname(&machine);
	snprintf(folder, sizeof(folder), "d/%s/a.1", machine.nodename);
	snprintf(path, sizeof(path), "%s/x", folder);
	make_dirs_of(path);
	builder = sample_builder(SNAP_WITH_ALL);
	for (int i = 0; i < TRACES; i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
}

static void leave(void)
{
	snapshot_builder__free(builder);
	archive_leave();
}

TestSuite(archive_killed, .init = enter, .fini = leave, .timeout = 600);

/* ---- kills ---- */

/* Saves as snapshot_builder__save() does where the file system has no nameless files, or not. */
static int save_image(const struct snap_image *image, int dir_fd, const char *name, bool named,
		      char linked[NAME_MAX + 1])
{
	struct atomic_file draft;
	int err = atomic_file_open(&draft, dir_fd, name, named) ?: snap_image_write(image, &draft) ?: atomic_file_sync(&draft) ?:
		  snap_draft_link(&draft, linked) ?: sync_dir(dir_fd);

	atomic_file_close(&draft);
	return err;
}

/*
 * Writes one snapshot after another until the test kills the process, and says when the first one is there. However late
 * the kill comes, the folder has no more than NAMES of a round.
 */
static void write_for_ever(int round, bool named, int said_fd)
{
	int dir_fd = open(folder, O_RDONLY | O_DIRECTORY);
	char name[64], linked[NAME_MAX + 1];
	struct snap_image image;
	struct snapshot view;

	snap_view(builder, &view);
	if (snap_image_make(&image, &view, NULL))
		_exit(1);
	for (unsigned int i = 0;; i++) {
		snprintf(name, sizeof(name), "20261121T03%02d%02d.%03dZ", round % 60, 0, i % NAMES);
		snprintf(linked, sizeof(linked), "%s.snap", name);
		unlinkat(dir_fd, linked, 0);
		if (save_image(&image, dir_fd, name, named, linked) || (!i && write(said_fd, "", 1) != 1))
			_exit(1);
	}
}

static void kill_while_writing(int round, bool named)
{
	int status, said[2];
	char byte;
	pid_t pid;

	cr_assert_eq(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (!pid)
		write_for_ever(round, named, said[1]);
	cr_assert(pid > 0);
	close(said[1]);
	cr_assert_eq(read(said[0], &byte, 1), 1, "it ended before the first snapshot");
	close(said[0]);
	usleep(rand() % 30000); /* from here on the child does nothing else than write */
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status), "it ended by itself: %x", status);
}

struct found {
	int whole, hidden;
};

static struct found look(void)
{
	struct found found = {};
	struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		struct reason why = { "" };
		struct snapshot *snapshot;
		char path[512];

		if (entry->d_name[0] == '.') {
			found.hidden += strlen(entry->d_name) > 2;
			continue;
		}
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		snapshot = snapshot__open(path, &why);
		cr_expect(snapshot, "%s", why.text);
		found.whole++;
		if (snapshot)
			cr_expect_eq(snapshot__tables(snapshot)->trace_nr, TRACES + 4);
		snapshot__close(snapshot);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void kill_again_and_again(bool named)
{
	struct found found, after;

	for (int i = 0; i < KILLS; i++)
		kill_while_writing(i, named);
	found = look();
	cr_expect_eq(found.hidden > 0, named, "%d files without a final name", found.hidden);
	cr_expect(found.whole > 0, "none was written at all");
	archive__close(open_archive(0, 0));
	after = look();
	cr_expect_eq(after.hidden, 0);
	cr_expect_eq(after.whole, found.whole);
}

Test(archive_killed, leaves_only_complete_files)
{
	kill_again_and_again(false);
}

/* Without nameless files in the file system, a draft is left over; the next snapshot removes it. */
Test(archive_killed, leaves_complete_files_and_recognizable_drafts)
{
	kill_again_and_again(true);
}

/* ---- failures ---- */

#define ANY_FD (-1)

/* From now on this system call fails, on that descriptor; there is no way back. */
static void let_fail(int call, int err, int fd)
{
	const struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, fd == ANY_FD ? 1 : 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_filter any[] = { filter[0], filter[1], filter[4], filter[5] };
	const struct sock_fprog program = {
		fd == ANY_FD ? ARRAY_SIZE(any) : ARRAY_SIZE(filter),
		(struct sock_filter *)(fd == ANY_FD ? any : filter),
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(255);
}

/* Saves a snapshot in a process where the call fails. Returns the result of snapshot_builder__save(). */
static int save_where_it_fails(int call, int err, bool of_folder)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		int next_fd = open("/", O_RDONLY); /* which the folder will have */
		char *path = NULL;

		close(next_fd);
		let_fail(call, err, of_folder ? next_fd : ANY_FD);
		_exit(-snapshot_builder__save(builder, folder, "20261121T031500.123Z", NULL, &path,
					      NULL));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EFAULT;
}

Test(archive_killed, leaves_nothing_when_a_system_call_fails)
{
	static const struct {
		int call, err;
		bool of_folder;
	} cases[] = {
		{ SYS_write, ENOSPC, false }, { SYS_write, EDQUOT, false }, { SYS_write, EIO, false },
		{ SYS_fsync, EIO, false }, { SYS_fsync, ENOSPC, false }, { SYS_fsync, EDQUOT, false },
		{ SYS_fsync, EIO, true }, { SYS_linkat, ENOSPC, false }, { SYS_linkat, EROFS, false },
		{ SYS_linkat, EDQUOT, false }, { SYS_fchmod, EROFS, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int err = save_where_it_fails(cases[i].call, cases[i].err, cases[i].of_folder);
		struct found found = look();

		cr_expect_eq(err, -cases[i].err, "case %zu: %d", i, err);
		cr_expect_eq(found.whole + found.hidden, 0, "case %zu", i);
	}
	cr_expect_eq(save_where_it_fails(SYS_ptrace, EIO, false), 0);
	cr_expect_eq(look().whole, 1);
}

/* ---- archive clock ---- */

/* Clocks that are set, and the age limit after that. */

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
