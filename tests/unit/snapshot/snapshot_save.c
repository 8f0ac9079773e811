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

#include "base/file_replace.h"
#include "base/reason.h"
#include "skip.h"
#include "snapshot.h"
#include "snapshot/private.h"
#include "snapshot_sample.h"

static char home[PATH_MAX];
static char directory[] = "/tmp/snapshot_save.XXXXXX";
static struct snapshot_builder *builder;

static void enter(void)
{
	cr_assert(getcwd(home, sizeof(home)));
	cr_assert(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
	cr_assert_eq(mkdir("d", 0700), 0);
	builder = sample_builder(SNAP_WITH_ALL);
}

static void leave(void)
{
	char command[64];

	snapshot_builder__free(builder);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir(home) || system(command))
		abort();
}

TestSuite(snapshot_save, .init = enter, .fini = leave, .timeout = 600);

/* The number of names in a directory, hidden ones too. */
static int name_nr(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int nr = -2; /* . and .. */

	cr_assert(dir);
	while ((entry = readdir(dir)))
		nr++;
	closedir(dir);
	return nr;
}

static void expect_whole(const char *path)
{
	struct reason why = { "" };
	struct snapshot *snapshot = snapshot__open(path, &why);
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	cr_expect_eq(st.st_mode, S_IFREG | 0600, "%s: mode %o", path, st.st_mode);
	cr_expect_eq(st.st_nlink, 1);
	cr_assert(snapshot, "%s", why.text);
	cr_expect_eq(snapshot__tables(snapshot)->trace_nr, 4);
	snapshot__close(snapshot);
}

static void expect_saved(const char *dir, const char *want)
{
	struct reason why = { "" };
	char *path = NULL;

	cr_assert_eq(snapshot_builder__save(builder, dir, "a", NULL, &path, &why), 0, "%s", why.text);
	cr_expect_str_eq(path, want);
	expect_whole(path);
	free(path);
}

static void expect_refused(const char *dir, const char *name, int err, const char *says)
{
	struct reason why = { "" };
	char *path = NULL;

	cr_expect_eq(snapshot_builder__save(builder, dir, name, NULL, &path, &why), err, "%s", why.text);
	cr_expect_null(path);
	cr_expect_str_eq(why.text, says);
	cr_expect_eq(snapshot_builder__save(builder, dir, name, NULL, &path, NULL), err);
}

Test(snapshot_save, keeps_an_existing_file)
{
	struct stat before, after;

	expect_saved("d", "d/a.snap");
	cr_assert_eq(stat("d/a.snap", &before), 0);
	expect_saved("d", "d/a-2.snap");
	expect_saved("d/", "d/a-3.snap");
	cr_assert_eq(stat("d/a.snap", &after), 0);
	cr_expect_eq(before.st_ino, after.st_ino);
	cr_assert_eq(unlink("d/a-2.snap"), 0);
	cr_assert_eq(symlink("/nowhere", "d/a-2.snap"), 0);
	expect_saved("d", "d/a-4.snap");
	cr_expect_eq(name_nr("d"), 4);
}

Test(snapshot_save, creates_files_with_mode_0600_whatever_the_umask)
{
	umask(0);
	expect_saved("d", "d/a.snap");
	umask(0777);
	expect_saved("d", "d/a-2.snap");
}

Test(snapshot_save, leaves_no_descriptor_open)
{
	int before = name_nr("/proc/self/fd");

	expect_saved("d", "d/a.snap");
	expect_refused("none", "a", -ENOENT,
		       "none: cannot write a.snap: No such file or directory");
	cr_expect_eq(name_nr("/proc/self/fd"), before);
}

Test(snapshot_save, refuses_invalid_directories)
{
	close(open("file", O_CREAT | O_WRONLY, 0600));
	expect_refused("file", "a", -ENOTDIR, "file: cannot write a.snap: Not a directory");
	expect_refused("", "a", -ENOENT, ": cannot write a.snap: No such file or directory");
}

Test(snapshot_save, refuses_invalid_names)
{
	char name[NAME_MAX + 1];
	char *path = NULL;

	expect_refused("d", "", -EINVAL, "d: cannot write .snap: Invalid argument");
	expect_refused("d", ".hidden", -EINVAL, "d: cannot write .hidden.snap: Invalid argument");
	expect_refused("d", "../a", -EINVAL, "d: cannot write ../a.snap: Invalid argument");
	memset(name, 'x', NAME_MAX);
	name[NAME_MAX - 4] = '\0';
	cr_expect_eq(snapshot_builder__save(builder, "d", name, NULL, &path, NULL), -ENAMETOOLONG);
	cr_expect_eq(name_nr("d"), 0);
	name[NAME_MAX - 5] = '\0';
	cr_expect_eq(snapshot_builder__save(builder, "d", name, NULL, &path, NULL), 0);
	cr_expect_eq(strlen(path), NAME_MAX + strlen("d/"));
	cr_expect_eq(access(path, F_OK), 0);
	free(path);
}

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

static int save_hidden(char name[NAME_MAX + 1])
{
	int dir_fd = open("d", O_RDONLY | O_DIRECTORY);
	struct snap_image image;
	struct snapshot view;
	int err;

	cr_assert(dir_fd >= 0);
	snap_view(builder, &view);
	cr_assert_eq(snap_image_make(&image, &view, NULL), 0);
	err = save_image(&image, dir_fd, "a", true, name);
	snap_image_release(&image);
	close(dir_fd);
	return err;
}

Test(snapshot_save, works_without_nameless_files)
{
	char name[NAME_MAX + 1];

	umask(0777);
	cr_expect_eq(save_hidden(name), 0);
	cr_expect_str_eq(name, "a.snap");
	expect_whole("d/a.snap");
	cr_expect_eq(save_hidden(name), 0);
	cr_expect_str_eq(name, "a-2.snap");
	expect_whole("d/a-2.snap");
	cr_expect_eq(name_nr("d"), 2);
}

/* A file that an earlier process with our PID left behind is neither used nor touched. */
Test(snapshot_save, ignores_a_stale_hidden_file)
{
	char name[NAME_MAX + 1], stale[64];
	struct stat st;

	snprintf(stale, sizeof(stale), "d/.a.tmp.%d", getpid());
	cr_assert_eq(symlink("../victim", stale), 0);
	cr_expect_eq(save_hidden(name), 0);
	expect_whole("d/a.snap");
	cr_expect_eq(lstat(stale, &st), 0);
	cr_expect(access("victim", F_OK) && errno == ENOENT);
	cr_expect_eq(name_nr("d"), 2);
}

/* The limit on a file's size ends the writing in the middle of the file. */
Test(snapshot_save, leaves_nothing_when_writing_fails)
{
	struct rlimit limit = { 1000, 1000 };
	char name[NAME_MAX + 1];

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cr_expect_eq(save_hidden(name), -EFBIG);
	cr_expect_eq(name_nr("d"), 0);
	expect_refused("d", "a", -EFBIG, "d: cannot write a.snap: File too large");
	cr_expect_eq(name_nr("d"), 0);
}

/*
 * In a mount namespace of its own; not everyone may have one. In a plain chroot / is no mount
 * point and cannot be made private: then the mount is what the one above it is.
 */
static bool mount_small_disk(const char *where)
{
	if (unshare(CLONE_NEWNS))
		return false;
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	return !mount("none", where, "tmpfs", 0, "size=16k");
}

static void add_many_traces(void)
{
	const struct snap_trace trace = { .size = 1 };

	for (int i = 0; i < 10000; i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
}

Test(snapshot_save, leaves_nothing_on_a_full_disk)
{
	char name[NAME_MAX + 1];

	if (!mount_small_disk("d"))
		skip_because("may not mount a tmpfs");
	expect_saved("d", "d/a.snap");
	add_many_traces();
	expect_refused("d", "b", -ENOSPC, "d: cannot write b.snap: No space left on device");
	cr_expect_eq(save_hidden(name), -ENOSPC);
	cr_expect_eq(name_nr("d"), 1);
	expect_whole("d/a.snap");
	umount("d");
}

Test(snapshot_save, leaves_nothing_on_a_read_only_disk)
{
	char name[NAME_MAX + 1];

	if (!mount_small_disk("d") || mount("none", "d", NULL, MS_REMOUNT | MS_RDONLY, NULL))
		skip_because("may not mount a tmpfs");
	expect_refused("d", "a", -EROFS, "d: cannot write a.snap: Read-only file system");
	cr_expect_eq(save_hidden(name), -EROFS);
	cr_expect_eq(name_nr("d"), 0);
	umount("d");
}

Test(snapshot_save, works_without_proc)
{
	if (!mount_small_disk("/proc"))
		skip_because("may not mount a tmpfs");
	expect_saved("d", "d/a.snap");
	expect_saved("d", "d/a-2.snap");
	cr_expect_eq(name_nr("d"), 2);
	umount("/proc");
}

/* ---- to a path ------------------------------------------------------------------------------ */

static struct snapshot *finished(void)
{
	struct snapshot *snapshot = sample_finish(builder);

	builder = NULL;
	return snapshot;
}

Test(snapshot_save, replaces_a_file)
{
	static const struct snapshot_save_options options[] = { { false }, { true } };
	struct snapshot *snapshot = finished(), *opened;
	struct reason why = { "" };

	close(open("d/b", O_CREAT | O_WRONLY, 0644));
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(snapshot__save(snapshot, "d/b", &options[i], &why), 0, "%s", why.text);
		expect_whole("d/b");
	}
	opened = snapshot__open("d/b", NULL); /* and onto itself */
	cr_expect_eq(snapshot__save(opened, "d/b", NULL, NULL), 0);
	expect_whole("d/b");
	cr_expect_eq(name_nr("d"), 1);
	snapshot__close(opened);
	snapshot__close(snapshot);
}

static void expect_not_saved(const struct snapshot *snapshot, const char *path, int err,
			     const char *says)
{
	struct reason why = { "" };

	cr_expect_eq(snapshot__save(snapshot, path, NULL, &why), err);
	cr_expect_str_eq(why.text, says);
	cr_expect_eq(snapshot__save(snapshot, path, NULL, NULL), err);
}

Test(snapshot_save, refuses_invalid_paths)
{
	struct snapshot *snapshot = finished();

	expect_not_saved(snapshot, "d", -EISDIR, "d: cannot write: Is a directory");
	expect_not_saved(snapshot, "no/b", -ENOENT, "no/b: cannot write: No such file or directory");
	expect_not_saved(snapshot, "/dev/full", -ENOSPC,
			 "/dev/full: cannot write: No space left on device");
	cr_expect_eq(snapshot__save(snapshot, "/dev/null", NULL, NULL), 0);
	snapshot__close(snapshot);
}

Test(snapshot_save, keeps_the_old_file_when_the_disk_is_full)
{
	struct snapshot *snapshot;

	if (!mount_small_disk("d"))
		skip_because("may not mount a tmpfs");
	expect_saved("d", "d/a.snap");
	add_many_traces();
	snapshot = finished();
	expect_not_saved(snapshot, "d/a.snap", -ENOSPC,
			 "d/a.snap: cannot write: No space left on device");
	cr_expect_eq(name_nr("d"), 1);
	expect_whole("d/a.snap");
	snapshot__close(snapshot);
	umount("d");
}

/* Snapshots that are written one after another and get their names together. */

static char folder[] = "/tmp/allocsnap-batch.XXXXXX";

static void enter_batch(void)
{
	cr_assert_not_null(mkdtemp(folder));
}

static int count_files(const char *dir)
{
	DIR *open = opendir(dir);
	int nr = 0;

	cr_assert_not_null(open);
	for (const struct dirent *entry; (entry = readdir(open));)
		nr += *entry->d_name != '.';
	closedir(open);
	return nr;
}

static void leave_batch(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

TestSuite(snapshot_batch, .init = enter_batch, .fini = leave_batch);

static void add(struct snapshot_batch *batch, const char *name, uint64_t tag)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct reason why = {};

	cr_assert_eq(snapshot_batch__add(batch, builder, folder, name, NULL, tag, &why), 0, "%s",
		     why.text);
	snapshot_builder__free(builder);
}

struct told {
	int nr, failed;
	char path[4][256];
	uint64_t tag[4];
};

static void tell(void *what, uint64_t tag, const char *path, int err, const struct reason *why)
{
	struct told *told = what;

	cr_assert_lt(told->nr, 4);
	told->failed += err != 0;
	cr_expect(!err == !!path && (!err || *why->text));
	told->tag[told->nr] = tag;
	snprintf(told->path[told->nr++], 256, "%s", path ? path : "");
}

Test(snapshot_batch, creates_names_when_it_is_published)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct told told = {};
	struct snapshot *snapshot;

	add(batch, "a", 7);
	add(batch, "b", 8);
	cr_expect_eq(snapshot_batch__nr(batch), 2);
	cr_expect_eq(count_files(folder), 0);
	snapshot_batch__publish(batch, tell, &told);
	cr_expect_eq(snapshot_batch__nr(batch), 0);
	cr_expect_eq(told.nr, 2);
	cr_expect_eq(told.failed, 0);
	cr_expect(told.tag[0] == 7 && told.tag[1] == 8);
	for (int i = 0; i < told.nr; i++) {
		snapshot = snapshot__open(told.path[i], NULL);
		cr_assert_not_null(snapshot, "%s", told.path[i]);
		snapshot__close(snapshot);
	}
	snapshot_batch__free(batch);
}

Test(snapshot_batch, numbers_a_name_that_exists)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct told told = {};

	add(batch, "a", 1);
	add(batch, "a", 2);
	snapshot_batch__publish(batch, tell, &told);
	cr_expect(strstr(told.path[0], "/a.snap"));
	cr_expect(strstr(told.path[1], "/a-2.snap"));
	snapshot_batch__free(batch);
}

Test(snapshot_batch, leaves_nothing_when_it_is_not_published)
{
	struct snapshot_batch *batch = snapshot_batch__new();

	add(batch, "a", 1);
	snapshot_batch__free(batch);
	cr_expect_eq(count_files(folder), 0);
	snapshot_batch__free(NULL);
}

Test(snapshot_batch, reports_a_failed_file_and_publishes_the_others)
{
	struct snapshot_batch *batch = snapshot_batch__new();
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct told told = {};
	struct reason why = {};
	char gone[128];

	add(batch, "a", 1);
	cr_expect_eq(snapshot_batch__add(batch, builder, folder, "../b", NULL, 2, &why), -EINVAL);
	cr_expect(*why.text);
	snprintf(gone, sizeof(gone), "%s/gone", folder);
	cr_expect_eq(snapshot_batch__add(batch, builder, gone, "b", NULL, 3, &why), -ENOENT);
	cr_assert_eq(mkdir(gone, 0700), 0);
	cr_assert_eq(snapshot_batch__add(batch, builder, gone, "c", NULL, 4, &why), 0);
	cr_assert_eq(rmdir(gone), 0); /* it has no place for the name any more */
	snapshot_batch__publish(batch, tell, &told);
	cr_expect_eq(told.nr, 2);
	cr_expect_eq(told.failed, 1);
	cr_expect(*told.path[0] && !*told.path[1]);
	cr_expect_eq(count_files(folder), 1);
	snapshot_builder__free(builder);
	snapshot_batch__free(batch);
}
