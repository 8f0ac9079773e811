/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_BOOKS_PRIVATE_H
#define ALLOCSNAP_EXACT_BOOKS_PRIVATE_H

/* Shared by the files that read the books. */

#include "base/idmap.h"
#include "exact/books_reader.h"

/* The thread that a slot had at another time. Blocks of epochs up to `until` belong to this thread, if not to one before it. */
struct slot_owner {
	uint32_t slot, tid, until;
	uint32_t before; /* its place in owner[], + 1; 0: none */
};

/* A thread when slots were last freed. */
struct quiet_thread {
	uint32_t tid;
	bool is_missing; /* in the list of threads of then */
	uint64_t left;	 /* struct books_thread */
};

struct books {
	int fd;
	enum books_kind kind;
	struct books_head *head; /* its first page, which the recorder writes, too */
	uint64_t *epoch; /* when each began, ns */
	size_t epoch_nr, epoch_alloc;
	uint32_t cut; /* 0: none is under way */
	bool has_ended; /* the process */
	uint32_t codes_read;
	uint64_t late_nr;
	uint64_t unreturned_nr, given_nr; /* threads of an ended process that were in a hook; blocks that they were to reallocate */
	uint64_t opened_ns, opened_cycles; /* the time stamp counter then */
	struct slot_owner *owner; /* of slots that were freed, by time */
	size_t owner_nr, owner_alloc;
	uint32_t late_epoch, late_is; /* blocks that came while epochs were merged, and their epoch; 0: none */
	uint32_t looked; /* the epoch when slots were last looked at */
	uint32_t *owned; /* by slot: the latest of its owner[], + 1; 0: none */
	uint32_t *tid; /* of each slot now */
	struct quiet_thread *quiet; /* of each slot */
	struct books_block *block; /* of the pass */
	size_t block_nr, block_alloc;
	struct idmap handed; /* into block[] */
};

/* Holes are zeros, and stay holes. 0 or a negative errno. */
int read_books_at(const struct books *books, uint64_t at, void *to, size_t bytes);

/* The next range with data in [*at, end). False: no data follow. */
bool next_books_data(const struct books *books, uint64_t *at, uint64_t end, uint64_t *ret_end);

/* Called with elements of a table that are not in holes. */
typedef int (*books_elements_fn)(void *what, const void *element, uint64_t first, uint64_t nr);

/* All elements with data in [first, end) of the table at `at`. */
int read_books_elements(const struct books *books, uint64_t at, uint64_t first, uint64_t end, size_t bytes, books_elements_fn fn,
			void *what);

static inline uint64_t books_thread_at(uint32_t slot)
{
	return BOOKS_AT_THREADS + slot * BOOKS_THREAD_BYTES;
}

/* A number of the head, which the process writes; at most `most`. */
uint32_t books_number(const uint32_t *place, uint32_t most);

#endif
