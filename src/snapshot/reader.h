/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_READER_H
#define ALLOCSNAP_SNAPSHOT_READER_H

#include "snapshot/format.h"

struct snapshot {
	struct snapshot_tables tables;
	const uint64_t *string_start;
	const char *string_bytes;
	void *owned; /* the file's bytes, or NULL if they are the caller's */
};

/*
 * A file while it is being checked, in three steps, each relying on the one before:
 *
 *	snap_check_start    the fixed header: is it a snapshot, of our version, of its full length?
 *	snap_check_layout   checksums, sections and padding; fills `section`
 *	snap_check_tables   every row of every table
 *
 * They return 0 or a negative errno with a line in *why.
 */
struct snap_reading {
	char name[SNAP_NAME_MAX];
	struct reason *why;
	const char *bytes;
	uint64_t len;
	const struct snap_section *section[SNAP_SECTION_TYPE_MAX]; /* NULL: not in the file */
};

/* header may be a copy; where the file is shorter the rest of it is zero. */
int snap_check_start(const struct snap_reading *reading, const struct snap_header *header);
int snap_check_layout(struct snap_reading *reading);
int snap_check_tables(const struct snap_reading *reading, struct snapshot *snapshot);

/* -EBADMSG and "NAME: damaged: section SECTION: …"; type 0: no section. */
__attribute__((format(printf, 3, 4)))
int snap_damaged(const struct snap_reading *reading, uint32_t type, const char *fmt, ...);

bool snap_is_zero(const void *bytes, size_t len);

#endif
