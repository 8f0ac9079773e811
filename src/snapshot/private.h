/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_PRIVATE_H
#define ALLOCSNAP_SNAPSHOT_PRIVATE_H

#include "base/file_stamp.h"
#include "snapshot/format.h"

/* The rows of one section; row is NULL where the section was not recorded. */
struct snap_rows {
	const void *row;
	uint64_t nr;
};

/* What pages_free() is to get back. */
struct snap_memory {
	void *bytes;
	size_t len;
};

struct snapshot {
	struct snapshot_tables tables; /* made of rows by snap_fill_tables() */
	const uint64_t *string_start;
	const char *string_bytes;
	struct snap_rows rows[SNAP_SECTION_TYPE_MAX];	  /* by section type */
	struct snap_memory memory[SNAP_SECTION_TYPE_MAX]; /* the same; [0] is the file */
	bool is_compressed; /* some section of its file was */
	bool is_of_file;
	struct file_stamp file; /* that it was read from */
	bool is_compact; /* it was read from a compact file: there is no more to be kept */
};

void snap_fill_tables(struct snapshot *snapshot);

/* Zeroed memory for nr rows of a section, which the snapshot owns. NULL with errno ENOMEM. */
void *snap_own_rows(struct snapshot *snapshot, uint32_t type, uint64_t nr);

#endif
