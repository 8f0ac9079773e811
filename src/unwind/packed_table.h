/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_PACKED_TABLE_H
#define ALLOCSNAP_UNWIND_PACKED_TABLE_H

/*
 * A table as one piece of memory, for a file: struct packed_table, then pages, rules and rows. All
 * of it is covered by a checksum. For this machine and this program only: another version's is
 * refused, and made anew.
 */

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind_table.h"

/* To be counted up when an object's table is another one than before. */
#define PACKED_TABLE_VERSION 1

#define PACKED_TABLE_KEY_WORDS 10

struct packed_table {
	char magic[8];
	uint32_t version;
	uint32_t head_bytes;
	uint64_t bytes;	   /* in all */
	uint64_t checksum; /* of all behind it */
	uint64_t key[PACKED_TABLE_KEY_WORDS]; /* what it is the table of: the caller's business */
	struct unwind_table table; /* its pointers are NULL */
};

/* More is no table. */
#define PACKED_TABLE_BYTES_MAX \
	(sizeof(struct packed_table) + (UNWIND_PAGES_MAX + 1) * sizeof(uint32_t) + \
	 UNWIND_RULES_MAX * sizeof(struct unwind_rule) + UNWIND_ROWS_MAX * sizeof(unwind_row))

/* The caller frees *ret. 0 or -ENOMEM. */
int packed_table_make(const struct unwind_table *table, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct packed_table **ret);

/* A sound table of this key, or -EBADMSG; -ENOMEM. Trusts nothing. */
int packed_table_open(const void *from, size_t bytes, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct unwind_table **ret);

#endif
