/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_CODE_LIST_H
#define ALLOCSNAP_COLLECT_SOURCES_CODE_LIST_H

/*
 * Makes the lists of code that a process with malloc's books gets (exact/known_code.h), from its mappings and the unwind
 * tables of its files. The words of a table are written into the books once.
 */

#include <stddef.h>
#include <stdint.h>

struct code_news;
struct known_code;
struct target;
struct unwind_tables;

#define STRANGE_PAGES 64

/* A table that is in the books. */
struct told_table {
	uint64_t owner; /* as in struct code_region */
	uint32_t words_at, word_nr; /* in the slabs */
	uint32_t at;		    /* in the books */
};

/* Zeroed: no list has been made. */
struct code_lists {
	struct told_table *told;
	size_t told_nr, told_alloc;
	uint64_t strange[STRANGE_PAGES]; /* pages outside of every mapping, where the process has looked for code; 0: none */
	uint32_t strange_nr;		 /* so far */
	uint64_t *stack; /* addresses in stacks that it wanted to read */
	size_t stack_nr, stack_alloc;
	uint64_t closed_nr; /* of the latest news */
	uint64_t news_ns;   /* the time of the latest news */
	uint64_t copied_ns; /* copies that are to be walked are later */
};

/* Notes what the process wants to know. The mappings are to be read after that. 0 or -ENOMEM. */
int code_lists_want(struct code_lists *lists, const struct code_news *news);

/* Publishes a list of its mappings as they are known. 0 or a negative errno. */
int code_lists_publish(struct code_lists *lists, struct known_code *known, const struct target *target,
		       const struct unwind_tables *tables);

void code_lists_release(struct code_lists *lists);

#endif
