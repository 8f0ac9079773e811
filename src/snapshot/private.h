/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_PRIVATE_H
#define ALLOCSNAP_SNAPSHOT_PRIVATE_H

#include "base/file_replace.h"
#include "snapshot/format.h"

/* The rows of one section; row is NULL if the section was not recorded. */
struct snap_rows {
	const void *row;
	uint64_t nr;
};

/* The arguments for pages_free(). */
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
	struct file_stamp file; /* the file that it was read from */
	bool is_compact; /* it was read from a compact file, so compacting it again removes nothing */
};

void snap_fill_tables(struct snapshot *snapshot);

/* Zeroed memory for nr rows of a section, which the snapshot owns. NULL with errno ENOMEM. */
void *snap_own_rows(struct snapshot *snapshot, uint32_t type, uint64_t nr);

#endif
