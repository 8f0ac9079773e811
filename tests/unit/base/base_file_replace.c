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
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_copy.h"
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

/* A file is rewritten only if it is the one that was read; it keeps its mode, owner and time. */

TestSuite(base_file_rewrite, .init = files_enter, .fini = files_leave, .timeout = 600);

static mode_t mode_of(const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static struct file_version stamp_of(const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0, "%s", path);
	return file_version_of(&st);
}

/* The stamp is the one of the file as it is now. */
static int rewrite(const char *path, int (*write)(FILE *out, const void *what), struct reason *why)
{
	const struct file_version stamp = stamp_of(path);

	return file_rewrite(path, &stamp, write, "new", why);
}

Test(base_file_rewrite, keeps_mode_owner_and_time)
{
	const struct timespec old[] = { { 1000000, 1 }, { 2000000, 123456789 } };
	struct reason why = {};
	struct stat st;

	cr_assert_eq(file_replace("f", write_text, "old", &why), 0);
	if (!geteuid())
		cr_assert_eq(chown("f", 1, 2), 0);
	cr_assert_eq(chmod("f", 06750), 0);
	cr_assert_eq(utimensat(AT_FDCWD, "f", old, 0), 0);
	cr_assert_eq(rewrite("f", write_text, &why), 0, "%s", why.text);
	cr_expect_str_eq(text_of("f"), "new");
	cr_expect_eq(mode_of("f"), 0750, "%o", mode_of("f"));
	cr_assert_eq(stat("f", &st), 0);
	cr_expect(st.st_mtim.tv_sec == old[1].tv_sec && st.st_mtim.tv_nsec == old[1].tv_nsec);
	if (!geteuid())
		cr_expect(st.st_uid == 1 && st.st_gid == 2);
	cr_expect_eq(rewrite("f", write_half, &why), -EXDEV);
	cr_expect_str_eq(text_of("f"), "new");
	cr_expect_eq(mode_of("f"), 0750);
	cr_expect_eq(name_nr("."), 2, "f and d");
}

/* u::rw-, u:1:rw-, g::---, m::rw-, o::---: the group has no rights, though the mode's bits say rw. */
static const unsigned char acl[] = {
	2, 0, 0, 0,
	0x01, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
	0x02, 0, 6, 0, 1, 0, 0, 0,
	0x04, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
	0x10, 0, 6, 0, 0xff, 0xff, 0xff, 0xff,
	0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
};

Test(base_file_rewrite, keeps_the_acl)
{
	char kept[256];

	put("f", "old");
	if (setxattr("f", "system.posix_acl_access", acl, sizeof(acl), 0))
		skip_because("this file system has no ACLs");
	cr_expect_eq(mode_of("f"), 0660);
	cr_assert_eq(rewrite("f", write_text, NULL), 0);
	cr_expect_str_eq(text_of("f"), "new");
	cr_expect_eq(mode_of("f"), 0660);
	cr_expect_eq(getxattr("f", "system.posix_acl_access", kept, sizeof(kept)), sizeof(acl));
	cr_expect_arr_eq(kept, acl, sizeof(acl));
}

Test(base_file_rewrite, keeps_extended_attributes)
{
	char kept[256];

	put("f", "old");
	if (setxattr("f", "user.why", "a leak", 6, 0) || setxattr("f", "user.empty", "", 0, 0))
		skip_because("this file system has no extended attributes");
	cr_assert_eq(rewrite("f", write_text, NULL), 0);
	cr_expect_eq(getxattr("f", "user.why", kept, sizeof(kept)), 6);
	cr_expect_arr_eq(kept, "a leak", 6);
	cr_expect_eq(getxattr("f", "user.empty", kept, sizeof(kept)), 0);
}

Test(base_file_rewrite, refuses_a_file_that_is_missing_or_not_regular)
{
	const struct file_version stamp = {};
	struct reason why = {};

	cr_expect_eq(file_rewrite("none", &stamp, write_text, "new", &why), -ENOENT);
	cr_expect_neq(access("none", F_OK), 0);
	cr_expect_eq(file_rewrite("/dev/null", &stamp, write_text, "new", &why), -EINVAL);
	cr_expect_eq(file_rewrite("d", &stamp, write_text, "new", &why), -EISDIR);
}

/* ---- another program changes the file, before it is rewritten or meanwhile ---- */

static int swap_for_a_link(void)
{
	return unlink("f") ?: symlink("victim", "f");
}

static int swap_for_another(void)
{
	return rename("other", "f");
}

static int write_into(void)
{
	int fd = open("f", O_WRONLY | O_TRUNC);
	int left = write(fd, "newer", 5) - 5;

	return close(fd) ?: left;
}

static int remove_it(void)
{
	return unlink("f");
}

static const struct {
	int (*change)(void);
	int err;
	const char *left, *says; /* left NULL: nothing */
} changes[] = {
	{ swap_for_a_link, -ESTALE, "victim", "f: cannot write: it is not the file that was read any more" },
	{ swap_for_another, -ESTALE, "other", "f: cannot write: it is not the file that was read any more" },
	{ write_into, -ESTALE, "newer", "f: cannot write: it is not the file that was read any more" },
	{ remove_it, -ENOENT, NULL, "f: cannot write: No such file or directory" },
};

static int write_and_change(FILE *out, const void *change)
{
	fputs("new", out);
	return (*(int (*const *)(void))change)();
}

static void expect_left(size_t i, struct reason *why)
{
	cr_expect_str_eq(why->text, changes[i].says);
	cr_expect_str_eq(text_of("victim"), "victim");
	if (changes[i].left)
		cr_expect_str_eq(text_of("f"), changes[i].left, "%zu", i);
	else
		cr_expect_neq(access("f", F_OK), 0, "it is brought back");
	unlink("f");
	unlink("other");
	cr_expect_eq(name_nr("."), 2, "victim and d");
}

static struct file_version prepare(void)
{
	put("victim", "victim");
	put("other", "other");
	put("f", "old");
	return stamp_of("f");
}

Test(base_file_rewrite, refuses_a_file_that_changed_after_it_was_read)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct file_version read = prepare();
		struct reason why = {};

		cr_assert_eq(changes[i].change(), 0);
		cr_expect_eq(file_rewrite("f", &read, write_text, "new", &why), changes[i].err);
		expect_left(i, &why);
	}
}

Test(base_file_rewrite, refuses_a_file_that_changes_while_it_is_written)
{
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		const struct file_version read = prepare();
		struct reason why = {};

		cr_expect_eq(file_rewrite("f", &read, write_and_change, &changes[i].change, &why),
			     changes[i].err);
		expect_left(i, &why);
	}
}

/* A link of another user is not followed, whichever folder it is in. */
Test(base_file_rewrite, refuses_links_of_other_users)
{
	struct file_version read;

	if (geteuid())
		skip_because("only root makes links of others");
	put("a", "old");
	read = stamp_of("a");
	cr_assert_eq(symlink("../a", "d/link"), 0);
	cr_assert_eq(lchown("d/link", 1, 1), 0);
	cr_expect_eq(file_rewrite("d/link", &read, write_text, "new", NULL), -EACCES);
	cr_expect_str_eq(text_of("a"), "old");
	cr_assert_eq(lchown("d/link", 0, 0), 0);
	cr_expect_eq(file_rewrite("d/link", &read, write_text, "new", NULL), 0);
	cr_expect_str_eq(text_of("a"), "new");
}

/* Not a multiple of the bytes that are compared at a time. */
#define BYTES (200 * 1000)
#define BYTES_MAX (1 << 20)

static char text[BYTES];

static int file_of(const void *bytes, size_t nr)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	cr_assert_eq(pwrite(fd, bytes, nr, 0), (ssize_t)nr);
	return fd;
}

static void fill_text(void)
{
	for (size_t i = 0; i < BYTES; i++)
		text[i] = i * 31 % 251;
}

TestSuite(file_copy, .init = fill_text);

Test(file_copy, matches_every_file_with_the_same_bytes)
{
	int file = file_of(text, BYTES), other = file_of(text, BYTES);
	struct file_copy *copy = file_copy__new(file, BYTES);

	cr_assert(copy);
	cr_expect_eq(file_copy__bytes(copy), BYTES);
	cr_expect(file_copy__is_of(copy, file));
	cr_expect(file_copy__is_of(copy, other));
	file_copy__free(copy);
	close(file);
	close(other);
}

Test(file_copy, matches_no_other_file)
{
	static const size_t places[] = { 0, 64 << 10, BYTES / 2, BYTES - 1 };
	int file = file_of(text, BYTES);
	struct file_copy *copy = file_copy__new(file, BYTES_MAX);

	cr_assert(copy);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		char byte = text[places[i]] + 1;

		cr_assert_eq(pwrite(file, &byte, 1, places[i]), 1);
		cr_expect(!file_copy__is_of(copy, file), "another byte at %zu", places[i]);
		cr_assert_eq(pwrite(file, &text[places[i]], 1, places[i]), 1);
		cr_expect(file_copy__is_of(copy, file));
	}
	cr_assert_eq(ftruncate(file, BYTES + 1), 0);
	cr_expect(!file_copy__is_of(copy, file), "longer");
	cr_assert_eq(ftruncate(file, BYTES - 1), 0);
	cr_expect(!file_copy__is_of(copy, file), "shorter");
	cr_expect(!file_copy__is_of(copy, -1), "none");
	file_copy__free(copy);
	close(file);
}

/* The copy is handed to a process that may be hostile. */
Test(file_copy, cannot_be_changed)
{
	int file = file_of(text, BYTES), fd;
	struct file_copy *copy = file_copy__new(file, BYTES_MAX);
	char got[BYTES];

	cr_assert(copy);
	fd = file_copy__fd(copy);
	cr_expect_eq(pwrite(fd, "x", 1, 0), -1);
	cr_expect_eq(ftruncate(fd, 1), -1);
	cr_expect_eq(ftruncate(fd, BYTES_MAX), -1);
	cr_expect_eq(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	cr_assert_eq(ftruncate(file, 1), 0);
	cr_assert_eq(pread(fd, got, BYTES, 0), BYTES);
	cr_expect(!memcmp(got, text, BYTES), "it is the file's, whatever that is now");
	file_copy__free(copy);
	close(file);
}

Test(file_copy, is_refused_for_a_file_above_the_limit)
{
	int file = file_of(text, BYTES), empty = file_of("", 0);

	cr_expect_null(file_copy__new(file, BYTES - 1));
	cr_expect_eq(errno, EFBIG);
	cr_expect_null(file_copy__new(empty, BYTES));
	cr_expect_eq(errno, ENODATA);
	cr_expect_null(file_copy__new(-1, BYTES));
	cr_expect_eq(errno, EBADF);
	file_copy__free(NULL);
	close(file);
	close(empty);
}
