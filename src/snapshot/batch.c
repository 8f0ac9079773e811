// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Saves one file, or several together. The first fsync() makes the disk's journal commit everything
 * written before, so the fsync() of the other files finds nothing left to do. The same is true for
 * the names.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/atomic_file.h"
#include "base/reason.h"
#include "snapshot.h"
#include "snapshot/private.h"
#include "snapshot/image.h"

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
