// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Never half a snapshot under its name, and nothing left behind by whatever ends us: the file is
 * made without a name (O_TMPFILE) and linked when it is whole and on the disk. link, unlike
 * rename, never replaces a file that is there.
 */
#include "snapshot/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reason.h"

#define SUFFIX_MAX 100000 /* files of one name in one directory */
#define STALE_MAX 100	  /* hidden files that an earlier process of our pid may have left */

/* A file on its way; `hidden` is its temporary name, "" if it has none. */
struct draft {
	int dir_fd;
	int fd;
	char hidden[NAME_MAX + 1];
};

static int error_of(int result)
{
	return result < 0 ? -errno : 0;
}

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t done = write(fd, bytes, len);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -EIO;
		bytes += done;
		len -= done;
	}
	return 0;
}

static int open_nameless(struct draft *draft)
{
	draft->fd = openat(draft->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	return error_of(draft->fd);
}

static int open_hidden(struct draft *draft, const char *name)
{
	int err = -EEXIST;

	for (int i = 1; i <= STALE_MAX && err == -EEXIST; i++) {
		snprintf(draft->hidden, sizeof(draft->hidden), i > 1 ? ".%.200s.tmp.%d-%d" :
			 ".%.200s.tmp.%d", name, getpid(), i);
		draft->fd = openat(draft->dir_fd, draft->hidden,
				   O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
		err = error_of(draft->fd);
	}
	if (err)
		draft->hidden[0] = '\0';
	return err;
}

/* File systems without O_TMPFILE say so in several ways. */
static int draft_open(struct draft *draft, const char *name, bool hidden)
{
	int err = hidden ? -EOPNOTSUPP : open_nameless(draft);

	if (err == -EOPNOTSUPP || err == -EISDIR || err == -EINVAL || err == -ENOENT)
		err = open_hidden(draft, name);
	return err;
}

static void draft_close(struct draft *draft)
{
	if (draft->hidden[0])
		unlinkat(draft->dir_fd, draft->hidden, 0);
	if (draft->fd >= 0)
		close(draft->fd);
}

static int draft_write(const struct draft *draft, const struct snap_image *image)
{
	int err = error_of(fchmod(draft->fd, 0600)); /* whatever the umask is */

	for (uint32_t i = 0; i < image->piece_nr && !err; i++)
		err = write_all(draft->fd, image->piece[i].iov_base, image->piece[i].iov_len);
	return err ?: error_of(fsync(draft->fd));
}

/* The second way works without /proc but wants CAP_DAC_READ_SEARCH. */
static int link_nameless(const struct draft *draft, const char *name)
{
	char path[64];
	int err;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
	err = error_of(linkat(AT_FDCWD, path, draft->dir_fd, name, AT_SYMLINK_FOLLOW));
	if (err == -ENOENT || err == -ENOTDIR)
		err = error_of(linkat(draft->fd, "", draft->dir_fd, name, AT_EMPTY_PATH));
	return err;
}

/* Where there are no links (FAT) the file is renamed, without replacing; both leave one name. */
static int link_hidden(struct draft *draft, const char *name)
{
	int err = error_of(linkat(draft->dir_fd, draft->hidden, draft->dir_fd, name, 0));

	if (err != -EPERM && err != -EOPNOTSUPP)
		return err;
	err = error_of(renameat2(draft->dir_fd, draft->hidden, draft->dir_fd, name,
				 RENAME_NOREPLACE));
	if (!err)
		draft->hidden[0] = '\0';
	return err;
}

static int draft_link(struct draft *draft, const char *name, char ret_name[NAME_MAX + 1])
{
	char tried[NAME_MAX + 1];
	int err = -EEXIST;

	for (int i = 1; i <= SUFFIX_MAX && err == -EEXIST; i++) {
		int len = i > 1 ? snprintf(tried, sizeof(tried), "%s-%d.snap", name, i) :
				  snprintf(tried, sizeof(tried), "%s.snap", name);

		if (len >= (int)sizeof(tried))
			return -ENAMETOOLONG;
		err = draft->hidden[0] ? link_hidden(draft, tried) : link_nameless(draft, tried);
	}
	if (!err)
		strcpy(ret_name, tried);
	return err;
}

/* Some file systems cannot sync a directory; it is not an error then. */
static int sync_dir(int dir_fd)
{
	int err = error_of(fsync(dir_fd));

	return err == -EINVAL || err == -EOPNOTSUPP ? 0 : err;
}

int snap_image_save(const struct snap_image *image, int dir_fd, const char *name,
		    bool named_temporary, char ret_name[NAME_MAX + 1])
{
	struct draft draft = { .dir_fd = dir_fd, .fd = -1 };
	char linked[NAME_MAX + 1];
	int err;

	err = draft_open(&draft, name, named_temporary);
	if (!err)
		err = draft_write(&draft, image);
	if (!err)
		err = draft_link(&draft, name, linked);
	draft_close(&draft);
	if (err)
		return err;
	err = sync_dir(dir_fd);
	if (err)
		unlinkat(dir_fd, linked, 0);
	else
		strcpy(ret_name, linked);
	return err;
}

static bool is_plain_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

/* The path with room for every name that snap_image_save() may choose; its directory's length. */
static int prepare_path(const char *dir, char **ret_path)
{
	size_t len = strlen(dir);
	const char *slash = len && dir[len - 1] == '/' ? "" : "/";

	return asprintf(ret_path, "%s%s%*s", dir, slash, NAME_MAX, "") < 0 ?
	       -ENOMEM : (int)(len + strlen(slash));
}

static int save_in(struct snapshot_builder *b, const char *dir, const char *name, char **ret_path)
{
	struct snap_image image;
	char *path = NULL;
	int err, dir_len;
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return -errno;
	dir_len = err = prepare_path(dir, &path);
	if (err < 0)
		goto out;
	snap_image_make(&image, b);
	err = snap_image_save(&image, dir_fd, name, false, path + dir_len);
	if (!err) {
		*ret_path = path;
		path = NULL;
	}
out:
	close(dir_fd);
	free(path);
	return err;
}

int snapshot_builder__save(struct snapshot_builder *b, const char *dir, const char *name,
			   char **ret_path, struct reason *why)
{
	char clean_dir[SNAP_NAME_MAX], clean_name[SNAP_NAME_MAX];
	int err = is_plain_name(name) ? save_in(b, dir, name, ret_path) : -EINVAL;

	if (!err)
		return 0;
	return reason_set(why, err, "%s: cannot write %s.snap: %s", snap_clean_path(clean_dir, dir),
			  snap_clean_path(clean_name, name), strerror(-err));
}
