/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FACTS_STORE_H
#define ALLOCSNAP_COLLECT_FACTS_STORE_H

/*
 * The facts of files, found once for all that hold the same bytes: the C library of two hundred
 * containers is one that was read and 199 that were compared with it.
 *
 * All bytes, and with a copy of what the reader had. Facts that are true of another file would put
 * breakpoints into the middle of instructions, and nothing less tells files apart: anybody can write a
 * build-id into his own; one with the C library's code may have symbols that take the reader over,
 * which then says what it likes; and who owns a file can give it back other bytes than it had when
 * it was read.
 */

#include <stdint.h>
#include <stddef.h>

#include "base/reason.h"
#include "elf/object_facts.h"

struct file_copy;
struct parser;

struct file_facts {
	struct object_facts facts;
	const struct functions_wanted *wanted; /* that were looked for, too */
	struct file_copy *copy; /* NULL: they are of one file only */
	unsigned int user_nr;
};

/* Zeroed: none. */
struct facts_store {
	struct file_facts **kept; /* those with a copy, as far as there is room; the least recently used is first */
	size_t kept_nr, kept_alloc;
	uint64_t bytes; /* of the copies */
};

struct file_to_read {
	struct parser *parser;
	int fd;
	const struct functions_wanted *wanted; /* NULL: none; compared as a pointer */
};

/* file_facts_put() gives *ret back. 0, or as parser__facts(). */
int facts_store_get(struct facts_store *store, const struct file_to_read *file,
		    struct file_facts **ret, struct reason *why);
void file_facts_put(struct file_facts *facts); /* NULL is allowed */

/* Before or after what it has given out. */
void facts_store_release(struct facts_store *store);

#endif
