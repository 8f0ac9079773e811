// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "archive/make.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/units.h"
#include "snapshot.h"

/* Gives away a folder that was just made. One that another process put into its place meanwhile is not ours. */
static int give_new_folder(int fd, const struct snapshot_file_owner *owner)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_uid != geteuid() || !S_ISDIR(st.st_mode) || st.st_nlink > 2)
		return -EPERM;
	return fchownat(fd, "", owner->uid, owner->gid, AT_EMPTY_PATH) ? -errno : 0;
}

/*
 * Whether a folder that is made in this one may be given away: this one is the user's, or the current folder. A link
 * could have led anywhere else.
 */
static bool may_give_in(int parent_fd, const struct snapshot_file_owner *owner)
{
	struct stat parent, current;

	if (!owner || !owner->is_set || fstat(parent_fd, &parent))
		return false;
	if (parent.st_uid == owner->uid)
		return true;
	return !stat(".", &current) && parent.st_dev == current.st_dev && parent.st_ino == current.st_ino;
}

/* Returns a descriptor (O_PATH) of a folder that exists or is made, or a negative errno. */
static int open_or_make_folder(int parent_fd, const char *name, bool may_be_link,
			       const struct snapshot_file_owner *owner)
{
	bool is_new = !mkdirat(parent_fd, name, 0700);
	int follow = may_be_link && !is_new ? 0 : O_NOFOLLOW, fd, err = 0;

	if (!is_new && errno != EEXIST)
		return -errno;
	fd = openat(parent_fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC | follow);
	if (fd < 0)
		return -errno;
	if (is_new && may_give_in(parent_fd, owner))
		err = give_new_folder(fd, owner);
	if (!err)
		return fd;
	close(fd);
	return err;
}

/* Like mkdir -p below fd, which it takes over: a descriptor (O_PATH) of the last folder, or a negative errno. */
static int open_or_make_path(int fd, const char *path, bool may_be_link, const struct snapshot_file_owner *owner)
{
	char *copy = strdup(path), *rest = copy, *name;

	if (!copy) {
		close(fd);
		return -ENOMEM;
	}
	while (fd >= 0 && (name = strsep(&rest, "/"))) {
		int parent_fd = fd;

		if (!*name)
			continue;
		fd = open_or_make_folder(parent_fd, name, may_be_link, owner);
		close(parent_fd);
	}
	free(copy);
	return fd;
}

static int report_unmade(const char *path, int err, struct reason *why)
{
	return reason_set(why, err, "cannot make the directory %s: %s", path, strerror(-err));
}

static int open_or_make_dir(const char *path, const struct snapshot_file_owner *owner, struct reason *why)
{
	int fd;

	if (!*path)
		return report_unmade(path, -EINVAL, why);
	fd = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = fd < 0 ? -errno : open_or_make_path(fd, path, true, owner);
	return fd < 0 ? report_unmade(path, fd, why) : fd;
}

int archive_check_folder(const char *path, const struct snapshot_file_owner *owner, struct reason *why)
{
	int dir_fd = open_or_make_dir(path, owner, why), fd, err = 0;
	char trial[64];

	if (dir_fd < 0)
		return dir_fd;
	snprintf(trial, sizeof(trial), ".allocsnap.%d", getpid());
	fd = openat(dir_fd, trial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		err = reason_set(why, -errno, "cannot write into %s: %s", path, strerror(errno));
	else
		close(fd);
	if (fd >= 0)
		unlinkat(dir_fd, trial, 0);
	close(dir_fd);
	return err;
}

#define NAME_ROOM (NAME_MAX + 2) /* longer ones are too long for the file system, too */

static void format_folder_name(char name[NAME_ROOM], const char *text)
{
	snprintf(name, NAME_ROOM, "%s", *text ? text : "_");
	clean_file_name(name);
}

char *archive_make_folder(const char *dir, const char *host, const char *comm, pid_t pid,
			  const struct snapshot_file_owner *owner, int *ret_fd, struct reason *why)
{
	char host_name[NAME_ROOM], comm_name[NAME_ROOM], *path;
	int fd;

	format_folder_name(host_name, host);
	format_folder_name(comm_name, comm);
	if (asprintf(&path, "%s/%s/%s.%d", dir, host_name, comm_name, pid) < 0)
		return errno = ENOMEM, NULL;
	fd = open_or_make_dir(dir, owner, why);
	if (fd >= 0) {
		fd = open_or_make_path(fd, path + strlen(dir), false, owner);
		if (fd < 0)
			report_unmade(path, fd, why);
	}
	if (fd >= 0) {
		*ret_fd = fd;
		return path;
	}
	free(path);
	errno = -fd;
	return NULL;
}
