// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/names.h"
#include "archive/walk.h"
#include "archive_fixture.h"
#include "base/array.h"
#include "base/moment.h"
#include "base/reason.h"
#include "skip.h"
#include "snapshot.h"

#define OURS "20261121T031500.123Z.snap"

Test(archive_names, of_snapshots_are_recognized)
{
	static const struct {
		const char *name;
		bool is_ours;
	} cases[] = {
		{ OURS, true }, { "20261121T031500.123Z-2.snap", true },
		{ "20261121T031500.123Z-100000.snap", true }, { "19700101T000000.000Z.snap", true },
		{ "20240229T235959.999Z.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.86400123.snap", true },
		{ "20261121T031500.123Z.0000000a.0-2.snap", true },
		{ "20261121T031500.123Z.6f3c21aa.086400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.snap", false },
		{ "20261121T031500.123Z.6F3C21AA.86400123.snap", false }, { "20261121T031500.123Z.6f3c21a.86400123.snap", false },
		{ "20261121T031500.123Z.6f3c21aa1.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa..snap", false },
		{ "20261121T031500.123Z.00000000.86400123.snap", false }, { "20261121T031500.123Z.6f3c21aa.-6.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.99999999999999999999.snap", false },
		{ "20261121T031500.123Z.6f3c21aa.864-1.snap", false }, { "20261121T031500.123Z..snap", false },
		{ "20261121T031500.123Z-2.6f3c21aa.86400123.snap", false },
		{ "", false }, { ".snap", false }, { "20261121T031500.123Z", false },
		{ "20261121T031500.123Z.snap.zst", false }, { "20261121T031500.123Z.snap~", false },
		{ ".20261121T031500.123Z.snap", false }, { "a20261121T031500.123Z.snap", false },
		{ "20261121T031500.123Z-1.snap", false }, { "20261121T031500.123Z-02.snap", false },
		{ "20261121T031500.123Z-.snap", false }, { "20261121T031500.123Z-2-3.snap", false },
		{ "20261121T031500.123Z--2.snap", false }, { "20261121T031500.123Z- 2.snap", false },
		{ "20261121T031500.123Z-1048576.snap", false },
		{ "20261121T031500.123Z-99999999999.snap", false },
		{ "20261121T031500Z.snap", false }, { "20261121T031500.12Z.snap", false },
		{ "20261121 031500.123Z.snap", false }, { "20260229T031500.123Z.snap", false },
		{ "20261321T031500.123Z.snap", false }, { "20261121T241500.123Z.snap", false },
		{ "20261121T031560.123Z.snap", false }, { "2026 121T031500.123Z.snap", false },
		{ "19691231T235959.999Z.snap", false }, { "99991121T031500.123Z.snap", false },
		{ "20261121T031500.-23Z.snap", false }, { "20261121T031500.123z.snap", false },
	};
	char text[MOMENT_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct moment moment = { .nr = 7 };

		cr_expect_eq(moment_parse(cases[i].name, &moment), cases[i].is_ours, "%s", cases[i].name);
		if (cases[i].is_ours)
			cr_expect_str_eq(moment_name(text, &moment), cases[i].name);
		else
			cr_expect_eq(moment.nr, 7);
	}
}

Test(archive_names, of_files_of_users_are_recognized)
{
	static const struct {
		const char *path;
		bool is_name, is_path;
	} cases[] = {
		{ "a.snap", true, true }, { ".snap", false, false }, { ".a.snap", false, true }, { "a.snap~", false, false },
		{ "d/a.snap", true, true }, { "d/.snap", true, false }, { "", false, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		cr_expect_eq(is_snapshot_name(cases[i].path), cases[i].is_name, "%s", cases[i].path);
		cr_expect_eq(is_snapshot_path(cases[i].path), cases[i].is_path, "%s", cases[i].path);
	}
}

Test(archive_names, of_folders_are_recognized)
{
	static const struct {
		const char *name;
		bool is_ours;
	} cases[] = {
		{ "python3.1", true }, { "python3.11.4194304", true }, { "_.17", true },
		{ "0123456789abcde.123", true }, { "a-b_c..1", true },
		{ "", false }, { "python", false }, { "python.", false }, { ".1", false },
		{ "python.0", false }, { "python.01", false }, { "python.1x", false },
		{ "python.-1", false }, { "python.4194305", false }, { "python.99999999999999999999", false },
		{ ".python.1", false }, { "py thon.1", false }, { "0123456789abcdef.123", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_eq(archive_is_folder_name(cases[i].name), cases[i].is_ours, "%s", cases[i].name);
}

Test(archive_names, of_drafts_are_recognized)
{
	static const struct {
		const char *name;
		pid_t writer; /* 0: it is none */
	} cases[] = {
		{ ".20261121T031500.123Z.6f3c21aa.86400123.tmp.17", 17 },
		{ ".20261121T031500.123Z.6f3c21aa.86400123-2.snap.tmp.17-3", 17 },
		{ ".20261121T031500.123Z.6f3c21aa.86400123-2.tmp.17", 0 }, { ".20261121T031500.123Z.6f3c21aa.tmp.17", 0 },
		{ ".20261121T031500.123Z.tmp.17", 17 }, { ".20261121T031500.123Z.tmp.17-2", 17 },
		{ ".20261121T031500.123Z.tmp.17-100", 17 },
		{ "20261121T031500.123Z.tmp.17", 0 }, { ".20261121T031500.123Z.tmp.", 0 },
		{ ".20261121T031500.123Z.tmp.x", 0 }, { ".20261121T031500.123Z.tmp.0", 0 },
		{ ".20261121T031500.123Z.tmp.017", 0 }, { ".20261121T031500.123Z.tmp.17-", 0 },
		{ ".20261121T031500.123Z.tmp.17-1", 0 }, { ".20261121T031500.123Z.tmp.17x", 0 },
		{ ".20261121T031500.123Z.tmp.17-2x", 0 }, { ".20261121T031500.123Z.snap", 0 },
		{ "." OURS ".tmp.17", 17 }, { "." OURS ".tmp.17-2", 17 },
		{ ".20261121T031500.123Z-2.snap.tmp.17", 17 }, { ".20261121T031500.123Z-1048575.snap.tmp.4194304-100", 4194304 },
		{ OURS ".tmp.17", 0 }, { "." OURS ".tmp.", 0 }, { "." OURS ".tmp.0", 0 },
		{ "." OURS ".17", 0 }, { "." OURS ".tmp.17-1", 0 }, { "." OURS "x.tmp.17", 0 },
		{ "." OURS ".tmp.17.tmp.17", 0 }, { ".20261121T031500.123Z-1.snap.tmp.17", 0 },
		{ ".20261121T031500.123Z-2.tmp.17", 0 }, { ".20261121T031560.123Z.snap.tmp.17", 0 },
		{ ".20261121T031500.123Zx.tmp.17", 0 }, { ".tmp.17", 0 }, { "..tmp.17", 0 },
		{ ".a.tmp.17", 0 }, { ".20261121T031560.123Z.tmp.17", 0 }, { "", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		pid_t writer = 0;

		cr_expect_eq(atomic_file_name_parse(cases[i].name, &writer), cases[i].writer != 0, "%s",
			     cases[i].name);
		cr_expect(!cases[i].writer || writer == cases[i].writer, "%s", cases[i].name);
	}
}

/* ---- archive walk ---- */

/* The walk through a folder: links, folders that change or cannot be read. */

TestSuite(archive_walk, .init = archive_enter, .fini = archive_leave, .timeout = 60);

/* Visits, one letter each, with the path of what is not the first folder. */
struct visits {
	char text[400];
	const char *passed_over, *replaced;
	int err;
};

static int visit(void *visits_, const struct archive_entry *entry)
{
	static const char letter[] = {
		[WALK_FOLDER] = '+', [WALK_LEFT] = '-', [WALK_UNREADABLE] = '!', [WALK_FILE] = 'f', [WALK_LINK] = 'l',
		[WALK_OTHER] = 'o',
	};
	struct visits *visits = visits_;
	size_t len = strlen(visits->text);
	struct stat st;

	cr_expect_str_eq(entry->name, entry->depth ? strrchr(entry->path, '/') + 1 : entry->path);
	cr_expect(entry->kind != WALK_FILE || !archive_entry_stat(entry, &st));
	snprintf(visits->text + len, sizeof(visits->text) - len, "%c%s ", letter[entry->kind], entry->path);
	if (visits->replaced && entry->kind == WALK_FOLDER && !strcmp(entry->path, visits->replaced))
		cr_assert(!rename(entry->path, "moved") && !symlink("../moved", entry->path));
	if (visits->passed_over && !strcmp(entry->path, visits->passed_over))
		return WALK_PASS_OVER;
	return entry->kind == WALK_FILE ? visits->err : 0;
}

Test(archive_walk, visits_what_is_there)
{
	struct visits visits = {};

	cr_assert_eq(mkdir("d/a", 0700) ?: mkdir("d/a/b", 0700), 0);
	put_file("d/a/b/.hidden", 0);
	cr_assert_eq(archive_walk("d//", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a +d/a/b fd/a/b/.hidden -d/a/b -d/a -d ");
	visits = (struct visits){ .passed_over = "d/a" };
	cr_assert_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a -d ");
	visits = (struct visits){ .err = -EIO };
	cr_expect_eq(archive_walk("d", visit, &visits), -EIO);
	cr_expect_eq(archive_walk("none", visit, &visits), -ENOENT);
	cr_expect_eq(archive_walk("d/a/b/.hidden", visit, &visits), -ENOTDIR);
}

/* The first folder may be a link. */
Test(archive_walk, follows_no_link_below_the_first_folder)
{
	struct visits visits = {};

	put_file("elsewhere/x.snap", 0);
	cr_assert_eq(symlink("../elsewhere", "d/link") ?: symlink("d", "first"), 0);
	cr_assert_eq(archive_walk("first", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+first lfirst/link -first ");
}

/* Between the visit and the opening, another user puts a link in the folder's place. */
Test(archive_walk, does_not_enter_a_folder_that_has_become_a_link)
{
	struct visits visits = { .replaced = "d/a" };

	put_file("d/a/x.snap", 0);
	cr_assert_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a -d/a -d ");
}

Test(archive_walk, reports_a_folder_that_cannot_be_opened)
{
	struct visits visits = {};

	if (geteuid())
		skip_because("only root can give the folder to another user");
	put_file("d/a/x.snap", 0);
	cr_assert_eq(chmod(".", 0711) | chmod("d", 0755) | seteuid(65534), 0);
	cr_expect_eq(archive_walk("d", visit, &visits), 0);
	cr_expect_str_eq(visits.text, "+d +d/a !d/a -d/a -d ");
	cr_assert_eq(seteuid(0), 0);
}

/* ---- archive make ---- */

/* New folders, and the owners of folders and files. */

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
