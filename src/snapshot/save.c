// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "snapshot/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file_replace.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "snapshot.h"

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

static bool snap_is_plain_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

/*
 * Allocates the path with room for the longest name of a file. Returns its directory's length, or a
 * negative errno.
 */
static int snap_prepare_path(const char *dir, char **ret_path)
{
	size_t len = strlen(dir);
	const char *slash = len && dir[len - 1] == '/' ? "" : "/";

	return asprintf(ret_path, "%s%s%*s", dir, slash, NAME_MAX, "") < 0 ?
	       -ENOMEM : (int)(len + strlen(slash));
}

/* The error message. */
static int snap_say_not_saved(const char *dir, const char *name, int err, struct reason *why)
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

/*
 * Saves one file, or several together. The first fsync() makes the disk's journal commit everything
 * written before, so the fsync() of the other files finds nothing left to do. The same is true for
 * the names.
 */

struct entry {
	struct atomic_file draft;
	int dir_fd;
	char *dir, *name;
	char *path; /* with room for the name */
	int dir_len; /* the length of the directory in path */
	uint64_t tag;
	int err; /* the error so far */
};

struct snapshot_batch {
	struct entry *entry;
	size_t entry_nr, entry_alloc;
};

struct snapshot_batch *snapshot_batch__new(void)
{
	return calloc(1, sizeof(struct snapshot_batch));
}

static void entry_close(struct entry *entry)
{
	atomic_file_close(&entry->draft);
	if (entry->dir_fd >= 0)
		close(entry->dir_fd);
	free(entry->dir);
	free(entry->name);
	free(entry->path);
}

static void batch_empty(struct snapshot_batch *batch)
{
	for (size_t i = 0; i < batch->entry_nr; i++)
		entry_close(&batch->entry[i]);
	batch->entry_nr = 0;
}

void snapshot_batch__free(struct snapshot_batch *batch)
{
	if (!batch)
		return;
	batch_empty(batch);
	free(batch->entry);
	free(batch);
}

size_t snapshot_batch__nr(const struct snapshot_batch *batch)
{
	return batch->entry_nr;
}

/* The descriptor of the caller may be one that only names the directory (O_PATH). */
static int open_entry_dir(const char *dir, const struct snapshot_save_options *options)
{
	int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int fd = options && options->dir_fd ? openat(*options->dir_fd, ".", flags) : open(dir, flags);

	return fd < 0 ? -errno : fd;
}

static int give_entry(const struct entry *entry, const struct snapshot_save_options *options)
{
	const struct snapshot_file_owner *owner = options ? options->owner : NULL;

	if (!owner || !owner->is_set)
		return 0;
	return fchown(entry->draft.fd, owner->uid, owner->gid) ? -errno : 0;
}

static int entry_open(struct entry *entry, const char *dir, const char *name,
		      const struct snapshot_save_options *options)
{
	int err;

	entry->dir = strdup(dir);
	entry->name = strdup(name);
	if (!entry->dir || !entry->name)
		return -ENOMEM;
	entry->dir_fd = open_entry_dir(dir, options);
	if (entry->dir_fd < 0)
		return entry->dir_fd;
	err = entry->dir_len = snap_prepare_path(dir, &entry->path);
	if (err < 0)
		return err;
	return atomic_file_open(&entry->draft, entry->dir_fd, entry->name, false) ?: give_entry(entry, options);
}

static int entry_write(const struct entry *entry, struct snapshot_builder *builder,
		       const struct snapshot_save_options *options)
{
	struct snap_image image;
	struct snapshot view;
	int err;

	snap_view(builder, &view);
	err = snap_image_make(&image, &view, options) ?: snap_image_write(&image, &entry->draft);
	snap_image_release(&image);
	return err;
}

static int sync_name(struct entry *entry)
{
	int err = sync_dir(entry->dir_fd);

	if (err)
		unlinkat(entry->dir_fd, entry->path + entry->dir_len, 0);
	return err;
}

int snapshot_builder__save(struct snapshot_builder *builder, const char *dir, const char *name,
			   const struct snapshot_save_options *options, char **ret_path,
			   struct reason *why)
{
	struct entry entry = { .dir_fd = -1, .draft.fd = -1 };
	int err = snap_is_plain_name(name) ? entry_open(&entry, dir, name, options) : -EINVAL;

	err = err ?: entry_write(&entry, builder, options);
	err = err ?: atomic_file_sync(&entry.draft);
	err = err ?: snap_draft_link(&entry.draft, entry.path + entry.dir_len);
	err = err ?: sync_name(&entry);
	if (!err) {
		*ret_path = entry.path;
		entry.path = NULL;
	}
	entry_close(&entry);
	return err ? snap_say_not_saved(dir, name, err, why) : 0;
}

int snapshot_batch__add(struct snapshot_batch *batch, struct snapshot_builder *builder, const char *dir,
			const char *name, const struct snapshot_save_options *options, uint64_t tag,
			struct reason *why)
{
	struct entry entry = { .dir_fd = -1, .draft.fd = -1, .tag = tag };
	int err = snap_is_plain_name(name) ? entry_open(&entry, dir, name, options) : -EINVAL;

	if (!err)
		err = entry_write(&entry, builder, options);
	if (!err)
		err = array_push(batch, entry, entry);
	if (!err)
		return 0;
	entry_close(&entry);
	return snap_say_not_saved(dir, name, err, why);
}

/* ---- to the disk ---- */

static void sync_files(struct snapshot_batch *batch)
{
	for (size_t i = 0; i < batch->entry_nr; i++)
		batch->entry[i].err = atomic_file_sync(&batch->entry[i].draft);
}

static void give_names(struct snapshot_batch *batch)
{
	for (size_t i = 0; i < batch->entry_nr; i++) {
		struct entry *entry = &batch->entry[i];

		if (!entry->err)
			entry->err = snap_draft_link(&entry->draft, entry->path + entry->dir_len);
	}
}

static void sync_names(struct snapshot_batch *batch)
{
	for (size_t i = 0; i < batch->entry_nr; i++) {
		struct entry *entry = &batch->entry[i];

		if (!entry->err)
			entry->err = sync_name(entry);
	}
}

static void report_saved(const struct entry *entry, snapshot_batch_done_fn done, void *what)
{
	struct reason why = {};

	if (entry->err) {
		snap_say_not_saved(entry->dir, entry->name, entry->err, &why);
		rmdir(entry->dir); /* fails if the directory has other files */
	}
	done(what, entry->tag, entry->err ? NULL : entry->path, entry->err, &why);
}

void snapshot_batch__publish(struct snapshot_batch *batch, snapshot_batch_done_fn done, void *what)
{
	sync_files(batch);
	give_names(batch);
	sync_names(batch);
	for (size_t i = 0; i < batch->entry_nr; i++)
		report_saved(&batch->entry[i], done, what);
	batch_empty(batch);
}
