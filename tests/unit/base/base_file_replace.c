// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_replace.h"
#include "file_fixture.h"
#include "skip.h"

TestSuite(base_file_replace, .init = files_enter, .fini = files_leave, .timeout = 600);

static int write_much(FILE *out, const void *text)
{
	for (int i = 0; i < 10000; i++)
		fputs(text, out);
	return 0;
}

static void expect_refused(const char *path, int err, const char *says)
{
	struct reason why = { "" };

	cr_expect_eq(file_replace(path, write_much, "0123456789", &why), err, "%s: %s", path, why.text);
	cr_expect_str_eq(why.text, says);
	cr_expect_eq(file_replace(path, write_much, "0123456789", NULL), err);
}

Test(base_file_replace, replaces_a_file_with_a_new_inode)
{
	struct stat before, after;
	int fd_nr = name_nr("/proc/self/fd");

	umask(0777);
	put("d/a", "one");
	cr_assert_eq(chmod("d/a", 0444), 0);
	cr_assert_eq(stat("d/a", &before), 0);
	put("d/a", "two, longer");
	cr_assert_eq(stat("d/a", &after), 0);
	put("./d//a", "3");
	cr_expect_neq(before.st_ino, after.st_ino);
	cr_expect_eq(after.st_mode, S_IFREG | 0600);
	cr_expect_eq(after.st_nlink, 1);
	cr_expect_eq(name_nr("d"), 1);
	cr_expect_eq(name_nr("/proc/self/fd"), fd_nr);
}

Test(base_file_replace, accepts_relative_and_absolute_paths)
{
	char path[PATH_MAX];

	put("plain", "here");
	snprintf(path, sizeof(path), "%s/d/absolute", files_directory);
	put(path, "there");
	cr_assert_eq(chdir("d"), 0);
	put("../up", "up");
	cr_expect_str_eq(text_of("../plain"), "here");
}

Test(base_file_replace, keeps_the_old_file_when_writing_fails)
{
	struct reason why = { "" };

	put("d/a", "old");
	cr_expect_eq(file_replace("d/a", write_half, "new", &why), -EXDEV);
	cr_expect_str_eq(why.text, "d/a: cannot write: Invalid cross-device link");
	cr_expect_eq(file_replace("d/b", write_half, "new", NULL), -EXDEV);
	cr_expect_str_eq(text_of("d/a"), "old");
	cr_expect_eq(name_nr("d"), 1);
}

Test(base_file_replace, keeps_the_old_file_when_the_new_file_is_too_large)
{
	struct rlimit limit = { 1000, 1000 };

	put("d/a", "old");
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	expect_refused("d/a", -EFBIG, "d/a: cannot write: File too large");
	cr_expect_str_eq(text_of("d/a"), "old");
	cr_expect_eq(name_nr("d"), 1);
}

/* The test needs its own mount namespace, and is skipped without the privilege. */
Test(base_file_replace, keeps_the_old_file_when_the_disk_is_full)
{
	if (unshare(CLONE_NEWNS))
		skip_because("may not mount a tmpfs");
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (mount("none", "d", "tmpfs", 0, "size=16k"))
		skip_because("may not mount a tmpfs");
	put("d/a", "old");
	expect_refused("d/a", -ENOSPC, "d/a: cannot write: No space left on device");
	expect_refused("d/b", -ENOSPC, "d/b: cannot write: No space left on device");
	cr_expect_str_eq(text_of("d/a"), "old");
	cr_expect_eq(name_nr("d"), 1);
	umount("d");
}

static const struct {
	const char *path;
	int err;
	const char *says;
} refused[] = {
	{ "", -ENOENT, ": cannot write: No such file or directory" },
	{ "d", -EISDIR, "d: cannot write: Is a directory" },
	{ "d/", -EISDIR, "d/: cannot write: Is a directory" },
	{ "/", -EISDIR, "/: cannot write: Is a directory" },
	{ "none/a", -ENOENT, "none/a: cannot write: No such file or directory" },
	{ "none/", -EISDIR, "none/: cannot write: Is a directory" },
	{ "file/a", -ENOTDIR, "file/a: cannot write: Not a directory" },
	{ "loop", -ELOOP, "loop: cannot write: Too many levels of symbolic links" },
	{ "to-d", -EISDIR, "to-d: cannot write: Is a directory" },
	{ "/dev/full", -ENOSPC, "/dev/full: cannot write: No space left on device" },
};

Test(base_file_replace, refuses_paths_that_are_not_files)
{
	put("file", "old");
	cr_assert_eq(symlink("loop", "loop"), 0);
	cr_assert_eq(symlink("d", "to-d"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		expect_refused(refused[i].path, refused[i].err, refused[i].says);
	cr_expect_str_eq(text_of("file"), "old");
	cr_expect_eq(name_nr("d"), 0);
}

Test(base_file_replace, follows_links)
{
	struct stat st;

	put("d/a", "old");
	cr_assert_eq(symlink("d/b", "link"), 0);
	cr_assert_eq(symlink("a", "d/b"), 0);
	put("link", "new");
	cr_expect_str_eq(text_of("d/a"), "new");
	cr_expect(!lstat("link", &st) && S_ISLNK(st.st_mode));
	cr_expect(!lstat("d/b", &st) && S_ISLNK(st.st_mode));
	cr_assert_eq(unlink("d/a"), 0);
	put("link", "again");
	cr_expect_str_eq(text_of("d/a"), "again");
}

Test(base_file_replace, refuses_links_of_other_users_in_a_sticky_folder)
{
	static const struct {
		mode_t mode;
		uid_t owner;
		int err;
	} cases[] = {
		{ 01777, 1, -EACCES }, { 01777, 0, 0 }, { 01755, 1, 0 }, { 0777, 1, 0 },
	};

	if (geteuid())
		skip_because("only root makes links of others");
	cr_assert_eq(symlink("../a", "d/link"), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		put("a", "old");
		cr_assert_eq(chmod("d", cases[i].mode), 0);
		cr_assert_eq(lchown("d/link", cases[i].owner, 0), 0);
		cr_expect_eq(file_replace("d/link", write_text, "new", NULL), cases[i].err);
		cr_expect_str_eq(text_of("a"), cases[i].err ? "old" : "new");
	}
}

Test(base_file_replace, writes_to_devices_and_pipes)
{
	char text[16] = "";
	struct stat st;
	int fd;

	cr_assert_eq(mkfifo("fifo", 0600), 0);
	fd = open("fifo", O_RDWR);
	cr_assert_eq(file_replace("fifo", write_text, "through", NULL), 0);
	cr_expect_eq(read(fd, text, sizeof(text)), 7);
	cr_expect_str_eq(text, "through");
	cr_assert_eq(file_replace("/dev/null", write_text, "away", NULL), 0);
	cr_expect(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
	cr_expect(!lstat("fifo", &st) && S_ISFIFO(st.st_mode));
}

/* /dev/fd/N, as of redirected output, is an open file of ours: it is written to, not replaced. */
Test(base_file_replace, writes_to_an_open_file_descriptor)
{
	int fd = open("log", O_CREAT | O_RDWR, 0600);
	char path[32];
	struct stat ours, st;

	cr_assert_eq(write(fd, "old ", 4), 4);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	cr_assert_eq(file_replace(path, write_text, "new", NULL), 0);
	cr_assert(!fstat(fd, &ours) && !stat("log", &st));
	cr_expect_eq(ours.st_ino, st.st_ino);
	cr_expect_str_eq(text_of("log"), "old new");
}

/* Some file systems support no nameless files. */
Test(base_file_replace, works_with_a_hidden_draft)
{
	int dir_fd = open("d", O_RDONLY | O_DIRECTORY);
	struct atomic_file draft;

	put("d/a", "old");
	cr_assert_eq(atomic_file_open(&draft, dir_fd, "a", true), 0);
	cr_assert_eq(write(draft.fd, "new", 3), 3);
	cr_expect_str_eq(text_of("d/a"), "old");
	cr_expect_eq(name_nr("d"), 2);
	cr_expect_eq(atomic_file_replace(&draft), 0);
	atomic_file_close(&draft);
	cr_expect_str_eq(text_of("d/a"), "new");
	cr_expect_eq(name_nr("d"), 1);
	cr_assert_eq(atomic_file_open(&draft, dir_fd, "a", true), 0);
	atomic_file_close(&draft);
	cr_expect_eq(name_nr("d"), 1);
	close(dir_fd);
}
