// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* New folders, and the owners of folders and files. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/make.h"
#include "base/reason.h"
#include "snapshot.h"
#include "skip.h"

static const struct snapshot_file_owner somebody = { true, 4242, 4343 };

static char dir[] = "/tmp/allocsnap-unit-XXXXXX";

static void enter_folder_of_test(void)
{
	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chdir(dir), 0);
}

static void remove_folder_of_test(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", dir);
	cr_expect_eq(system(command), 0);
}

TestSuite(archive_make, .init = enter_folder_of_test, .fini = remove_folder_of_test);

static void expect_owner(const char *path, uid_t uid, gid_t gid)
{
	struct stat st = {};

	cr_expect_eq(lstat(path, &st), 0, "%s: %s", path, strerror(errno));
	cr_expect(st.st_uid == uid && st.st_gid == gid, "%s belongs to %u:%u", path, st.st_uid, st.st_gid);
}

Test(archive_make, cleans_the_names_of_folders)
{
	struct reason why = {};
	struct stat st;
	char *path;
	int fd;

	path = archive_make_folder("d", ".ho/st", "../a b\n\xff", 42, NULL, &fd, &why);
	cr_assert_not_null(path, "%s", why.text);
	cr_expect_str_eq(path, "d/_ho_st/_._a_b__.42");
	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode & 07777, 0700);
	close(fd);
	free(path);
}

Test(archive_make, refuses_a_directory_that_is_a_file)
{
	struct reason why = {};

	cr_expect_eq(archive_check_folder("/dev/null", NULL, &why), -ENOTDIR);
	cr_expect_not_null(strstr(why.text, "/dev/null"));
	cr_expect_eq(archive_check_folder("/dev/null/below", NULL, &why), -ENOTDIR);
	cr_expect_eq(archive_check_folder("/proc/allocsnap", NULL, &why), -ENOENT);
	cr_expect_eq(archive_check_folder("", NULL, &why), -EINVAL);
}

Test(archive_make, new_folders_go_to_the_owner_outside_of_folders_of_others)
{
	struct reason why = {};
	char *path;
	int fd;

	if (geteuid())
		skip_because("only root can give folders away");
	path = archive_make_folder("new", "host", "comm", 7, &somebody, &fd, &why);
	cr_assert_not_null(path, "%s", why.text);
	expect_owner("new", 4242, 4343);
	expect_owner("new/host", 4242, 4343);
	expect_owner("new/host/comm.7", 4242, 4343);
	close(fd);
	free(path);
	cr_assert_eq(mkdir("old", 0755), 0);
	path = archive_make_folder("old/new", "host", "comm", 7, &somebody, &fd, &why);
	cr_assert_not_null(path, "%s", why.text);
	expect_owner("old", geteuid(), getegid());
	expect_owner("old/new", geteuid(), getegid());
	expect_owner("old/new/host/comm.7", geteuid(), getegid());
	close(fd);
	free(path);
}

Test(archive_make, links_below_the_folder_are_not_followed)
{
	struct reason why = {};
	char *path;
	int fd = -1;

	cr_assert_eq(mkdir("real", 0700) ?: mkdir("dir", 0700) ?: symlink("../real", "dir/host") ?:
		     symlink("dir", "link"), 0);
	cr_expect_null(archive_make_folder("dir", "host", "comm", 7, NULL, &fd, &why), "HOST is a link");
	cr_expect_not_null(strstr(why.text, "dir/host/comm.7"), "%s", why.text);
	path = archive_make_folder("link", "other", "g++", 7, NULL, &fd, &why);
	cr_expect_not_null(path, "DIR may be a link: %s", why.text);
	cr_expect_eq(access("dir/other/g++.7", F_OK), 0);
	cr_expect_eq(rmdir("real"), 0, "nothing was made behind the link");
	close(fd);
	free(path);
}

static char *save_one(const struct snapshot_save_options *options)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct reason why = {};
	char *path = NULL;

	cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){ .size = 1 }), 0);
	cr_assert_eq(snapshot_builder__save(builder, "elsewhere", "one", options, &path, &why), 0, "%s", why.text);
	snapshot_builder__free(builder);
	return path;
}

Test(archive_make, a_file_is_written_to_the_open_folder_and_given_away)
{
	struct snapshot_save_options options = {};
	int fd;

	cr_assert_eq(mkdir("folder", 0700), 0);
	fd = open("folder", O_PATH | O_DIRECTORY);
	options.dir_fd = &fd;
	options.owner = geteuid() ? NULL : &somebody;
	free(save_one(&options));
	free(save_one(&options));
	for (int i = 0; i < 2; i++)
		expect_owner(i ? "folder/one-2.snap" : "folder/one.snap", options.owner ? 4242 : geteuid(),
			     options.owner ? 4343 : getegid());
	close(fd);
}
