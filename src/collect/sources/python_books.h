/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_PYTHON_BOOKS_H
#define ALLOCSNAP_COLLECT_SOURCES_PYTHON_BOOKS_H

/*
 * Processes whose CPython enters its blocks into books of its own (exact/books.h), by functions that this recording has put
 * into it, in place of probes. Their blocks, tracebacks and code objects join the ones of the kernel in each pass.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "shared/python_types.h"

struct books;
struct collector;
struct reason;
struct python_unseen;
struct snapshot_builder;
struct target;

#define PYTHON_WORDS (PYTHON_DOMAIN_NR * PYTHON_OPERATION_NR)

/* A pointer in a table of allocators, and the hook that the injector has written there. */
struct python_word {
	uint64_t address, put;
};

/* A process that has books. */
struct python_books {
	pid_t pid;
	struct books *books;
	struct python_word word[PYTHON_WORDS];
	struct python_word tracer; /* to the function that sees when objects begin; address 0: not hooked, or any more */
	uint64_t looked_ns; /* when the words were last looked at */
	bool is_lost;	    /* and one was another */
	uint64_t stopped_ns; /* how long its threads were stopped */
};

struct all_python_books {
	struct python_books *process;
	size_t process_nr, process_alloc;
};

/* NULL: it has none of this recording. */
struct books *find_python_books(const struct all_python_books *all, pid_t pid);

/* Whether an object in memory that a free list has kept has a traceback of its own. */
bool python_books_retag(const struct all_python_books *all, pid_t pid);

/* Takes over the descriptor. 0 or a negative errno. */
int python_books_add(struct all_python_books *all, const struct python_books *new, int fd);
void python_books_release(struct all_python_books *all);

/* Once the kernel's blocks have been read, and once its tracebacks have. 0 or a negative errno. */
int read_python_books(struct collector *collector);
int read_python_stacks(struct collector *collector);

/* The blocks that a program which was started had before the hooks were in. 0 or a negative errno. */
int describe_unseen_start(struct snapshot_builder *builder, const struct python_unseen *unseen);

/* As keep_births(). */
uint64_t keep_python_births(struct collector *collector);

/* Adds the losses of the books. */
void add_python_books_losses(const struct target *target, uint64_t *loss);

#endif
