/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_WORD_POOL_H
#define ALLOCSNAP_COLLECT_WORD_POOL_H

/* Which words of a space are taken: first fit, and neighbours that are free become one. */

#include <stddef.h>
#include <stdint.h>

struct free_words {
	uint32_t at, nr;
};

/* Zeroed: nothing was ever taken. */
struct word_pool {
	uint32_t end; /* all words from here on are free */
	struct free_words *hole; /* below, by address */
	size_t hole_nr, hole_alloc;
	struct free_words *left; /* taken still; see word_pool_leave() */
	size_t left_nr, left_alloc;
};

/* Takes nr words, at most up to `most`. Where they begin, or -E2BIG. */
int64_t word_pool_take(struct word_pool *pool, uint32_t nr, uint64_t most);

/* Gives them back. Where there is no memory to note that, they stay taken. */
void word_pool_give(struct word_pool *pool, uint32_t at, uint32_t nr);

/* Gives them back later, with word_pool_settle(): somebody may be reading them. As above where there is no memory. */
void word_pool_leave(struct word_pool *pool, uint32_t at, uint32_t nr);

/* Whoever read what has been left is done: that is free. */
void word_pool_settle(struct word_pool *pool);

void word_pool_release(struct word_pool *pool);

#endif
