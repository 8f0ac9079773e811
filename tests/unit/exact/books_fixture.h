/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_BOOKS_FIXTURE_H
#define TESTS_UNIT_BOOKS_FIXTURE_H

/* Books (src/exact/books.h) in a memory file, mapped as a whole, and what the reader says of them. */

#include <stdbool.h>
#include <stddef.h>

#include "exact/books_reader.h"

struct made_books {
	int fd; /* its own descriptor: the reader has another */
	char *base;
	struct books *books;
};

/* A file with a head, and nothing else. */
void make_file_of_books(struct made_books *made);
void open_made_books(struct made_books *made);
void release_made_books(struct made_books *made);

#define MADE_AT(made, type, at) ((type *)((made)->base + (at)))
#define MADE_HEAD(made) MADE_AT(made, struct books_head, BOOKS_AT_HEAD)
#define MADE_NODES(made) MADE_AT(made, struct books_node, BOOKS_AT_NODES)

static inline struct books_thread *made_thread(const struct made_books *made, uint32_t slot)
{
	return MADE_AT(made, struct books_thread, BOOKS_AT_THREADS + slot * BOOKS_THREAD_BYTES);
}

/* The blocks of one pass. */
struct read_books {
	struct books_block *block; /* by address */
	size_t block_nr, block_alloc;
};

int keep_read_block(void *read_books, const struct books_block *block);

/* Errors of the reader are returned. */
int cut_and_read(struct made_books *made, uint64_t now_ns, bool has_ended, struct read_books *ret);
void release_read_books(struct read_books *read);

#endif
