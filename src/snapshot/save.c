// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/file_replace.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot/private.h"
#include "snapshot/image.h"

static void add_piece(struct snap_image *image, const void *bytes, size_t len)
{
	if (!len)
		return;
	image->piece[image->piece_nr++] = (struct iovec){ (void *)bytes, len };
	image->header.file_size += len;
}

static void add_section(struct snap_image *image, struct snap_section *section, uint32_t type,
			const struct snap_rows *rows)
{
	static const char padding[SNAP_ALIGN];
	bool is_packed = image->packed[type];
	const void *bytes = is_packed ? image->packed[type] : rows->row;

	*section = (struct snap_section){
		.type = type,
		.encoding = is_packed ? SNAP_ZSTD : SNAP_RAW,
		.offset = image->header.file_size,
		.size = is_packed ? image->packed_len[type] :
				    rows->nr * snap_shapes[type].row_size,
		.count = rows->nr,
	};
	section->checksum = snap_checksum(bytes, section->size);
	add_piece(image, bytes, section->size);
	add_piece(image, padding, -section->size % SNAP_ALIGN);
}

int snap_image_make(struct snap_image *image, const struct snapshot *snapshot,
		    const struct snapshot_save_options *options)
{
	const struct snap_rows *rows = image->rows;
	struct snap_section *section = image->section;
	int err = 0;

	*image = (struct snap_image){
		.header = {
			.magic = SNAP_MAGIC,
			.version = SNAP_VERSION,
			.header_size = sizeof(image->header),
		},
	};
	memcpy(image->rows, snapshot->rows, sizeof(image->rows));
	if (snapshot->is_compact || (options && options->compact))
		err = snap_image_compact(image);
	if (!err && options && options->compress)
		err = snap_image_pack(image);
	if (err)
		return err;
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		image->header.section_nr += !!rows[type].row;
	add_piece(image, &image->header, sizeof(image->header));
	add_piece(image, image->section, image->header.section_nr * sizeof(*section));
	for (uint32_t type = 1; type < SNAP_SECTION_TYPE_MAX; type++)
		if (rows[type].row)
			add_section(image, section++, type, &rows[type]);
	image->header.checksum = snap_header_checksum(&image->header, image->section);
	return 0;
}

void snap_image_release(struct snap_image *image)
{
	for (uint32_t type = 0; type < SNAP_SECTION_TYPE_MAX; type++) {
		free(image->packed[type]);
		free(image->own[type]);
	}
}

int snapshot__serialize(const struct snapshot *snapshot,
			const struct snapshot_save_options *options, void **ret_bytes,
			size_t *ret_len)
{
	struct snap_image image;
	int err = snap_image_make(&image, snapshot, options);
	char *bytes = err ? NULL : malloc(image.header.file_size);
	char *end = bytes;

	if (bytes) {
		for (uint32_t i = 0; i < image.piece_nr; i++)
			end = mempcpy(end, image.piece[i].iov_base, image.piece[i].iov_len);
		*ret_bytes = bytes;
		*ret_len = image.header.file_size;
	}
	snap_image_release(&image);
	return bytes ? 0 : -ENOMEM;
}

int snapshot_builder__serialize(struct snapshot_builder *b, void **ret_bytes, size_t *ret_len)
{
	struct snapshot view;

	snap_view(b, &view);
	return snapshot__serialize(&view, NULL, ret_bytes, ret_len);
}

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
 * Starts writing each part to the disk while the next one is copied; atomic_file_sync() waits for all of
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
int snap_image_write(const struct snap_image *image, const struct atomic_file *draft)
{
	off_t offset = 0;
	int err = 0;

	for (uint32_t i = 0; i < image->piece_nr && !err; i++)
		err = write_piece(draft->fd, image->piece[i].iov_base, image->piece[i].iov_len,
				  &offset);
	return err;
}

/* link, unlike rename, never replaces an existing file. */
int snap_draft_link(struct atomic_file *draft, char ret_name[NAME_MAX + 1])
{
	char tried[NAME_MAX + 1];
	int err = -EEXIST;

	for (int i = 1; i <= SUFFIX_MAX && err == -EEXIST; i++) {
		int len = i > 1 ? snprintf(tried, sizeof(tried), "%s-%d.snap", draft->name, i) :
				  snprintf(tried, sizeof(tried), "%s.snap", draft->name);

		if (len >= (int)sizeof(tried))
			return -ENAMETOOLONG;
		err = atomic_file_link(draft, tried);
	}
	if (!err)
		strcpy(ret_name, tried);
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

int snap_say_not_saved(const char *dir, const char *name, int err, struct reason *why)
{
	char clean_dir[SNAP_NAME_MAX], clean_name[SNAP_NAME_MAX];

	return reason_set(why, err, "%s: cannot write %s.snap: %s",
			  clean_path(clean_dir, sizeof(clean_dir), dir),
			  clean_path(clean_name, sizeof(clean_name), name), strerror(-err));
}

/* The progress goes on from `done` bytes. */
static int write_part(FILE *out, const struct iovec *part, const struct progress *progress, uint64_t done)
{
	for (size_t at = 0, len; at < part->iov_len; at += len) {
		len = part->iov_len - at < AT_ONCE ? part->iov_len - at : AT_ONCE;
		if (fwrite((char *)part->iov_base + at, 1, len, out) != len)
			return -errno;
		progress_show(progress, done + at + len);
	}
	return 0;
}

static int write_image(FILE *out, const void *what)
{
	const struct snap_image *image = what;
	struct progress progress = progress_begin("writing", NULL, image->header.file_size);
	uint64_t done = 0;
	int err = 0;

	for (uint32_t i = 0; i < image->piece_nr && !err; i++) {
		err = write_part(out, &image->piece[i], &progress, done);
		done += image->piece[i].iov_len;
	}
	progress_end(&progress);
	return err;
}

static int write_snapshot_file(const char *path, const struct file_version *old,
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
