/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_BUILDER_H
#define ALLOCSNAP_SNAPSHOT_BUILDER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "base/idmap.h"
#include "base/strpool.h"
#include "snapshot/format.h"

/* The rows of one section; their size is in snap_shapes[]. ids is used where rows are interned. */
struct snap_table {
	void *row;
	size_t nr, alloc;
	struct idmap ids;
};

struct snapshot_builder {
	uint32_t columns;
	uint32_t domains; /* all of them or-ed */
	struct strpool string;
	struct snap_table table[SNAP_SECTION_TYPE_MAX]; /* by section type, but for the strings */
};

/*
 * A file as a list of pieces, which point into the builder and into the image itself: neither
 * may move or change while it is in use.
 */
struct snap_image {
	struct snap_header header;
	struct snap_section section[SNAP_SECTION_TYPE_MAX];
	struct iovec piece[2 * SNAP_SECTION_TYPE_MAX + 2];
	uint32_t piece_nr;
};

void snap_image_make(struct snap_image *image, const struct snapshot_builder *builder);

/*
 * Writes the image into a directory as NAME.snap, NAME-2.snap… and gives the name it got. The
 * file is nameless until it is whole; with named_temporary, and where the file system knows no
 * nameless files, it has a hidden name until then.
 */
int snap_image_save(const struct snap_image *image, int dir_fd, const char *name,
		    bool named_temporary, char ret_name[NAME_MAX + 1]);

#endif
