/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_PRIVATE_H
#define ALLOCSNAP_SNAPSHOT_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "base/file_replace.h"
#include "base/idmap.h"
#include "snapshot/format.h"

struct atomic_file;
struct reason;

/* The rows of one section; row is NULL if the section was not recorded. */
struct snap_rows {
	const void *row;
	uint64_t nr;
};

/* The arguments for huge_pages_free(). */
struct snap_memory {
	void *bytes;
	size_t len;
};

struct snapshot {
	struct snapshot_tables tables; /* snap_fill_tables() computes them from rows */
	const uint64_t *string_start;
	const char *string_bytes;
	struct snap_rows rows[SNAP_SECTION_TYPE_MAX];	  /* by section type */
	struct snap_memory memory[SNAP_SECTION_TYPE_MAX]; /* by section type; [0] is the whole file */
	bool is_compressed; /* a section of its file was compressed */
	bool is_of_file;
	struct file_version file; /* the file that it was read from */
	bool is_compact; /* it was read from a compact file, so compacting it again removes nothing */
};

void snap_fill_tables(struct snapshot *snapshot);

/* Reads and checks metadata and strings only: the other tables are empty. Otherwise as snapshot__open(). */
struct snapshot *snap_open_head(const char *path, struct reason *why);

/* Zeroed memory for nr rows of a section, which the snapshot owns. NULL with errno ENOMEM. */
void *snap_own_rows(struct snapshot *snapshot, uint32_t type, uint64_t nr);

/* The rows of one section; snap_shapes[] has their size. ids is used if rows are interned. */
struct snap_table {
	void *row;
	size_t nr, alloc;
	struct idmap ids;
};

struct snapshot_builder {
	uint32_t columns;
	uint32_t domains; /* the domains of all traces, or-ed */
	bool has_first_lines; /* at least one first line is known */
	struct strpool string;
	struct snap_table table[SNAP_SECTION_TYPE_MAX]; /* by section type, except for the strings */
};

/* A snapshot of the rows so far. It owns nothing, and is valid until the builder changes. */
void snap_view(const struct snapshot_builder *builder, struct snapshot *view);

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

/* Links a synced draft under the first free name: NAME.snap, NAME-2.snap… -EEXIST: no such name is free. */
int snap_draft_link(struct atomic_file *draft, char ret_name[NAME_MAX + 1]);

#endif
