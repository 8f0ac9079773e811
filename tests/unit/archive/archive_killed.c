// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* SIGKILL in the middle of writing, and calls of the kernel that fail there. */
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
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "archive_fixture.h"
#include "base/array.h"
#include "base/file_replace.h"
#include "snapshot/private.h"
#include "snapshot_sample.h"

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
