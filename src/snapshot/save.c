// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/draft.h"
#include "base/file_replace.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot/builder.h"

#define SUFFIX_MAX 100000 /* files of one name in one directory */

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

#define AT_ONCE (8 << 20)

/*
 * Starts writing each part to the disk while the next one is copied; draft_sync() waits for all of
 * it.
 */
static int write_piece(int fd, const char *bytes, size_t len, off_t *offset)
{
	int err = 0;

	for (size_t done = 0, part; done < len && !err; done += part) {
		part = len - done < AT_ONCE ? len - done : AT_ONCE;
		err = write_all(fd, bytes + done, part);
		sync_file_range(fd, *offset, part, SYNC_FILE_RANGE_WRITE);
		*offset += part;
	}
	return err;
}

/* Does not sync the draft. */
int snap_image_write(const struct snap_image *image, const struct draft *draft)
{
	off_t offset = 0;
	int err = 0;

	for (uint32_t i = 0; i < image->piece_nr && !err; i++)
		err = write_piece(draft->fd, image->piece[i].iov_base, image->piece[i].iov_len,
				  &offset);
	return err;
}

/* link, unlike rename, never replaces an existing file. */
int snap_draft_link(struct draft *draft, char ret_name[NAME_MAX + 1])
{
	char tried[NAME_MAX + 1];
	int err = -EEXIST;

	for (int i = 1; i <= SUFFIX_MAX && err == -EEXIST; i++) {
		int len = i > 1 ? snprintf(tried, sizeof(tried), "%s-%d.snap", draft->name, i) :
				  snprintf(tried, sizeof(tried), "%s.snap", draft->name);

		if (len >= (int)sizeof(tried))
			return -ENAMETOOLONG;
		err = draft_link(draft, tried);
	}
	if (!err)
		strcpy(ret_name, tried);
	return err;
}

int snap_image_save(const struct snap_image *image, int dir_fd, const char *name,
		    bool named_temporary, char ret_name[NAME_MAX + 1])
{
	char linked[NAME_MAX + 1];
	struct draft draft;
	int err;

	err = draft_open(&draft, dir_fd, name, named_temporary);
	if (!err)
		err = snap_image_write(image, &draft) ?: draft_sync(&draft) ?:
		      snap_draft_link(&draft, linked);
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

bool snap_is_plain_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

int snap_prepare_path(const char *dir, char **ret_path)
{
	size_t len = strlen(dir);
	const char *slash = len && dir[len - 1] == '/' ? "" : "/";

	return asprintf(ret_path, "%s%s%*s", dir, slash, NAME_MAX, "") < 0 ?
	       -ENOMEM : (int)(len + strlen(slash));
}

static int save_in(struct snapshot_builder *b, const char *dir, const char *name,
		   const struct snapshot_save_options *options, char **ret_path)
{
	struct snap_image image;
	struct snapshot view;
	char *path = NULL;
	int err, dir_len;
	int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir_fd < 0)
		return -errno;
	dir_len = err = snap_prepare_path(dir, &path);
	if (err < 0)
		goto out;
	snap_view(b, &view);
	err = snap_image_make(&image, &view, options) ?:
	      snap_image_save(&image, dir_fd, name, false, path + dir_len);
	snap_image_release(&image);
	if (!err) {
		*ret_path = path;
		path = NULL;
	}
out:
	close(dir_fd);
	free(path);
	return err;
}

int snap_say_not_saved(const char *dir, const char *name, int err, struct reason *why)
{
	char clean_dir[SNAP_NAME_MAX], clean_name[SNAP_NAME_MAX];

	return reason_set(why, err, "%s: cannot write %s.snap: %s",
			  clean_path(clean_dir, sizeof(clean_dir), dir),
			  clean_path(clean_name, sizeof(clean_name), name), strerror(-err));
}

int snapshot_builder__save(struct snapshot_builder *b, const char *dir, const char *name,
			   const struct snapshot_save_options *options, char **ret_path,
			   struct reason *why)
{
	int err = snap_is_plain_name(name) ? save_in(b, dir, name, options, ret_path) : -EINVAL;

	return err ? snap_say_not_saved(dir, name, err, why) : 0;
}

static int write_image(FILE *out, const void *what)
{
	const struct snap_image *image = what;

	for (uint32_t i = 0; i < image->piece_nr; i++)
		if (fwrite(image->piece[i].iov_base, 1, image->piece[i].iov_len, out) !=
		    image->piece[i].iov_len)
			return -errno;
	return 0;
}

static int write_snapshot_file(const char *path, const struct file_stamp *old,
			       const struct snap_image *image, struct reason *why)
{
	return old ? file_rewrite(path, old, write_image, image, why) :
		     file_replace(path, write_image, image, why);
}

int snapshot__save(const struct snapshot *snapshot, const char *path,
		   const struct snapshot_save_options *options, struct reason *why)
{
	char clean[SNAP_NAME_MAX];
	struct snap_image image;
	int err = snap_image_make(&image, snapshot, options);

	if (err)
		err = reason_set(why, err, "%s: cannot write: %s",
				 clean_path(clean, sizeof(clean), path), strerror(-err));
	else
		err = write_snapshot_file(path, options ? options->rewrite : NULL, &image, why);
	snap_image_release(&image);
	return err;
}
