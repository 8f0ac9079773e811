/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_UNWIND_WORD_POOL_H
#define ALLOCSNAP_COLLECT_UNWIND_WORD_POOL_H

/* Allocates words of an address space: first fit, and adjacent free ranges are merged. */

#include <stddef.h>
#include <stdint.h>

struct free_words {
	uint32_t at, nr;
};

/* Zeroed: all words are free. */
struct word_pool {
	uint32_t end; /* all words from here on are free */
	struct free_words *hole; /* free ranges below `end`, by address */
	size_t hole_nr, hole_alloc;
	struct free_words *left; /* still allocated; see word_pool_leave() */
	size_t left_nr, left_alloc;
};

/* Allocates nr words below `most`. Returns the first one, or -E2BIG. */
int64_t word_pool_take(struct word_pool *pool, uint32_t nr, uint64_t most);

/* Frees words. Without memory to note this, they stay allocated. */
void word_pool_give(struct word_pool *pool, uint32_t at, uint32_t nr);

/*
 * Frees words later, in word_pool_settle(), because a BPF program may be reading them. Without memory to note
 * this, they stay allocated.
 */
void word_pool_leave(struct word_pool *pool, uint32_t at, uint32_t nr);

/* Frees the words passed to word_pool_leave(): no program reads them any more. */
void word_pool_settle(struct word_pool *pool);

void word_pool_release(struct word_pool *pool);

#endif
