/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SNAPSHOT_READER_H
#define ALLOCSNAP_SNAPSHOT_READER_H

#include "snapshot/private.h"

#define SNAP_TABLE_MAX 64 /* sections in a file, including sections of later versions */

/*
 * Checks a file in steps, each of which relies on the ones before:
 *
 *	snap_check_start     the fixed header: is it a snapshot, of our version, of its full length?
 *	snap_check_layout    the header's checksum, the section table; fills `section`
 *	                     then the sections and the gaps between them are read:
 *	snap_check_gap         the bytes between sections are zero
 *	snap_check_sum         a section's checksum
 *	snap_unpack          compressed sections; fills the snapshot's rows
 *	snap_expand          fewer or shorter rows of a compact file
 *	snap_check_tables    every row of every table
 *
 * The functions return 0 or a negative errno with a line in *why. The header and the table are copies:
 * the data that are checked are the data that are used.
 */
struct snap_reading {
	char name[SNAP_NAME_MAX];
	struct reason *why;
	uint64_t len;
	struct snap_header header; /* if the file is shorter, the rest is zero */
	struct snap_section table[SNAP_TABLE_MAX];
	const struct snap_section *section[SNAP_SECTION_TYPE_MAX]; /* NULL: not in the file */
};

int snap_check_start(const struct snap_reading *reading);

/*
 * For a header that passed snap_check_start(): whether the file is long enough for the table, and
 * the table fits into `table`.
 */
int snap_check_table_size(const struct snap_reading *reading);
int snap_check_layout(struct snap_reading *reading);

/* type is the section after the gap; 0: the end of the file. */
int snap_check_gap(const struct snap_reading *reading, uint32_t type, const void *bytes,
		   size_t len);
int snap_check_sum(const struct snap_reading *reading, const struct snap_section *section,
		   uint64_t checksum);

/*
 * bytes: the whole file. If the snapshot owns them, compressed sections are given back to the
 * system.
 */
int snap_unpack(const struct snap_reading *reading, const char *bytes, struct snapshot *snapshot);
int snap_expand(const struct snap_reading *reading, struct snapshot *snapshot);
int snap_check_tables(const struct snap_reading *reading, struct snapshot *snapshot);
int snap_check_head(const struct snap_reading *reading, struct snapshot *snapshot); /* metadata and strings only */

/* -EBADMSG and "NAME: damaged: section SECTION: …"; type 0: no section. */
__attribute__((format(printf, 3, 4)))
int snap_damaged(const struct snap_reading *reading, uint32_t type, const char *fmt, ...);

/* Sets "NAME: " and the system's text for err, and returns err. */
int snap_system_error(const struct snap_reading *reading, int err);

#endif
