/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_PACKED_TABLE_H
#define ALLOCSNAP_UNWIND_PACKED_TABLE_H

/*
 * A table as one piece of memory, for a file: struct packed_table, then pages, rules and rows. A
 * checksum covers all of it. It is valid for this machine and this version of the program only:
 * another version's table is rejected and compiled again.
 */

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind_table.h"

/* Increment this when the compiler's output for an object changes. */
#define PACKED_TABLE_VERSION 1

#define PACKED_TABLE_KEY_WORDS 10

struct packed_table {
	char magic[8];
	uint32_t version;
	uint32_t head_bytes;
	uint64_t bytes;	   /* of everything */
	uint64_t checksum; /* of everything after this field */
	uint64_t key[PACKED_TABLE_KEY_WORDS]; /* identifies the object; the caller chooses it */
	struct unwind_table table; /* its pointers are NULL */
};

/* A longer file is no table. */
#define PACKED_TABLE_BYTES_MAX \
	(sizeof(struct packed_table) + (UNWIND_PAGES_MAX + 1) * sizeof(uint32_t) + \
	 UNWIND_RULES_MAX * sizeof(struct unwind_rule) + UNWIND_ROWS_MAX * sizeof(unwind_row))

/* The caller frees *ret. 0 or -ENOMEM. */
int packed_table_make(const struct unwind_table *table, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct packed_table **ret);

/*
 * Unpacks a table with this key and checks everything. 0; -EBADMSG it is damaged, or another key's;
 * -ENOMEM.
 */
int packed_table_open(const void *from, size_t bytes, const uint64_t key[PACKED_TABLE_KEY_WORDS],
		      struct unwind_table **ret);

#endif
