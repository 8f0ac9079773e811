/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_IMAGE_H
#define ALLOCSNAP_SNAPSHOT_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "snapshot/private.h"

struct draft;
struct reason;

/*
 * A file as a list of pieces, which point into the snapshot and into the image itself: neither
 * may move or change while it is in use.
 */
struct snap_image {
	struct snap_header header;
	struct snap_section section[SNAP_SECTION_TYPE_MAX];
	struct snap_rows rows[SNAP_SECTION_TYPE_MAX]; /* by section type: what is written */
	void *own[SNAP_SECTION_TYPE_MAX]; /* those that are not the snapshot's */
	void *packed[SNAP_SECTION_TYPE_MAX]; /* by section type; NULL: as it is */
	size_t packed_len[SNAP_SECTION_TYPE_MAX];
	struct iovec piece[2 * SNAP_SECTION_TYPE_MAX + 2];
	uint32_t piece_nr;
};

/* 0 or -ENOMEM; options may be NULL. Release it also where it fails. */
int snap_image_make(struct snap_image *image, const struct snapshot *snapshot,
		    const struct snapshot_save_options *options);
void snap_image_release(struct snap_image *image);

/* Takes out what a compact file does without. 0 or -ENOMEM. */
int snap_image_compact(struct snap_image *image);

/* Compresses what gets smaller by it: packed and packed_len. 0 or -ENOMEM. */
int snap_image_pack(struct snap_image *image);

/* Into a draft, which is not synced yet. 0 or a negative errno. */
int snap_image_write(const struct snap_image *image, const struct draft *draft);

/* Gives a draft that is on the disk the first name that is free: NAME.snap, NAME-2.snap… -EEXIST: none. */
int snap_draft_link(struct draft *draft, char ret_name[NAME_MAX + 1]);

/* What both ways of saving say. */
int snap_say_not_saved(const char *dir, const char *name, int err, struct reason *why);
bool snap_is_plain_name(const char *name);

/* The path with room for every name that a file may get; its directory's length, or a negative errno. */
int snap_prepare_path(const char *dir, char **ret_path);

/*
 * Writes the image into a directory as NAME.snap, NAME-2.snap… and gives the name it got. The
 * file is nameless until it is whole; with named_temporary, and where the file system knows no
 * nameless files, it has a hidden name until then.
 */
int snap_image_save(const struct snap_image *image, int dir_fd, const char *name,
		    bool named_temporary, char ret_name[NAME_MAX + 1]);

#endif
