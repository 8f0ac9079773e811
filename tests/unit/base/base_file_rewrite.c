// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A file is rewritten only if it is the one that was read; it keeps its mode, owner and time. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_replace.h"
#include "file_fixture.h"
#include "skip.h"

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
