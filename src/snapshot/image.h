/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_IMAGE_H
#define ALLOCSNAP_SNAPSHOT_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "snapshot/private.h"

struct atomic_file;
struct reason;

/*
 * A file as a list of pieces. They point into the snapshot and into the image itself, so neither
 * may move or change while the image is in use.
 */
struct snap_image {
	struct snap_header header;
	struct snap_section section[SNAP_SECTION_TYPE_MAX];
	struct snap_rows rows[SNAP_SECTION_TYPE_MAX]; /* by section type: the rows to write */
	void *own[SNAP_SECTION_TYPE_MAX]; /* rows that the image owns */
	void *packed[SNAP_SECTION_TYPE_MAX]; /* by section type; NULL: not compressed */
	size_t packed_len[SNAP_SECTION_TYPE_MAX];
	struct iovec piece[2 * SNAP_SECTION_TYPE_MAX + 2];
	uint32_t piece_nr;
};

/* 0 or -ENOMEM; options may be NULL. Release the image after an error, too. */
int snap_image_make(struct snap_image *image, const struct snapshot *snapshot,
		    const struct snapshot_save_options *options);
void snap_image_release(struct snap_image *image);

/* Removes the data that a compact file omits. 0 or -ENOMEM. */
int snap_image_compact(struct snap_image *image);

/* Compresses the sections that get smaller: sets packed and packed_len. 0 or -ENOMEM. */
int snap_image_pack(struct snap_image *image);

/* Writes to a draft, without syncing it. 0 or a negative errno. */
int snap_image_write(const struct snap_image *image, const struct atomic_file *draft);

/* Links a synced draft under the first free name: NAME.snap, NAME-2.snap… -EEXIST: there is none. */
int snap_draft_link(struct atomic_file *draft, char ret_name[NAME_MAX + 1]);

/* The error message. */
int snap_say_not_saved(const char *dir, const char *name, int err, struct reason *why);
bool snap_is_plain_name(const char *name);

/*
 * Allocates the path with room for the longest name of a file. Returns its directory's length, or a
 * negative errno.
 */
int snap_prepare_path(const char *dir, char **ret_path);

#endif
