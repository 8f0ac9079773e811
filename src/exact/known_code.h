/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_KNOWN_CODE_H
#define ALLOCSNAP_EXACT_KNOWN_CODE_H

/*
 * The recorder writes for a process that records its own heap (books.h) where its code is, and how to unwind it. The process
 * copies stacks whose code it does not know yet: the recorder walks them.
 *
 *	known_code__news()	what the process asks for
 *	known_code__publish()	a list of its code, which holds from then on
 *	known_code__read_copies()
 *
 * Nothing that lies in the books is trusted: the recorder has its own copy of all that it has written there. Functions of
 * type int return 0 or a negative errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exact/books.h"

struct books;
struct known_code;

/* Keeps at most `frames` frames of a copied stack. The caller still owns the books. The process waits until the first list is published. */
int known_code__open(struct books *books, uint32_t frames, struct known_code **ret);
void known_code__close(struct known_code *known); /* may be NULL */

struct code_news {
	uint64_t time_ns; /* what comes later is not in these */
	uint64_t closed_nr; /* of the head: to be read before the code of the process is looked at */
	uint64_t wanted_code, wanted_stack; /* 0: none */
	bool has_closed; /* the list that holds has another closed_nr */
	bool has_copies; /* new ones: the list that holds may lack their code */
	bool has_unread; /* of before the latest news: they were not complete */
};

/* News since the last call. Without any it returns false, and takes less than a microsecond. */
bool known_code__news(struct known_code *known, struct code_news *ret);

/* Appends words of unwind tables; *ret_at: the first one's place. -ENOSPC: there is no room. */
int known_code__add_words(struct known_code *known, const uint64_t *word, uint32_t nr, uint32_t *ret_at);

/* Code of the process, and what is known of it. */
struct code_region {
	struct books_region region;
	uint64_t owner; /* which file it is of: regions of different ones are different code */
	bool is_gone;	/* it is not mapped any more, but stacks that were copied may still have it */
	bool is_unsure; /* other code may have been there when stacks were copied */
};

struct code_range {
	uint64_t start, end;
};

/*
 * Regions are sorted by address, and do not overlap, but for UNWIND_NO_CODE and code that is gone. In one without a table, first_page
 * is enum unwind_end: UNWIND_NO_TABLE or UNWIND_NO_CODE.
 */
struct code_list {
	struct code_region *region;
	size_t region_nr, region_alloc;
	struct code_range *range;
	size_t range_nr, range_alloc;
	uint64_t closed_nr; /* of the news before the code was looked at */
	uint64_t time_ns;   /* the code was there at that time */
};

/*
 * Other code has come to a range at this time, of which the list that holds knows nothing. Until the next one holds, walks may
 * have gone by the rules of the code before. To be called before the next list is published; once for each, or more often.
 */
int known_code__replaced(struct known_code *known, uint64_t start, uint64_t end, uint64_t time_ns);

/* When the code was last found to be as in the list that holds. */
uint64_t known_code__confirmed_ns(const struct known_code *known);

/*
 * Since when a walk with this number of replacements may have gone by rules of other code, because of one of its frames; *ret_frame: the
 * first one whose code is not known then. 0: never.
 */
uint64_t known_code__unsure_since(const struct known_code *known, uint32_t replaced_nr, const uint64_t *frame, uint32_t frame_nr,
				  uint32_t *ret_frame);

/*
 * The list holds from now on, as far as there is room for it. If nothing has changed, nothing is written, but for the time.
 * The list stays the caller's.
 */
int known_code__publish(struct known_code *known, const struct code_list *list);

/*
 * The time at which code with this number of replacements was there, as far as is known: frames of such a traceback are of the
 * files that were mapped then. 0: not known.
 */
uint64_t known_code__time_of(const struct known_code *known, uint32_t replaced_nr);

/* Walks the stacks that had been copied before the latest news, by the regions of the latest list, those that are gone included. */
int known_code__read_copies(struct known_code *known);

/* frame[]: as in nodes of the books, the innermost first; frame_nr of total_nr. */
struct copied_stack {
	uint64_t number; /* as in the node: BOOKS_COPY_NUMBER() */
	uint64_t time_ns; /* as known_code__time_of() */
	uint32_t first, frame_nr, total_nr;
	uint32_t end; /* enum unwind_end */
};

/* NULL: it was not copied wholly, or there was no room for it. Valid until the next call of any function. */
const struct copied_stack *known_code__find_copy(struct known_code *known, uint64_t number, const uint64_t **ret_frame);

#endif
