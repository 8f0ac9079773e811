/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_BOOKS_PASS_H
#define ALLOCSNAP_COLLECT_SOURCES_BOOKS_PASS_H

/*
 * Processes that enter their blocks into books of their own (exact/books.h), in place of probes: their blocks and tracebacks
 * join the ones of the kernel in each pass. Python's books and malloc's differ by struct books_lane.
 */

#include <stdbool.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct books;
struct books_stack;
struct collector;
struct snapshot_builder;
struct target;

struct books_lane {
	enum layer layer;
	uint32_t domain;
	struct books *(*books_of)(const struct target *target); /* NULL: none */
	void (*before_cut)(struct collector *collector, struct target *target); /* NULL: nothing */
	int (*after_read)(struct collector *collector, struct target *target); /* NULL: nothing */
	/* Fills in the frames: 0. 1: they are not known, or a negative errno. churn, image, by_tables are set. */
	int (*fill)(struct target *target, const struct books_stack *stack, uint64_t id, struct traceback *ret);
};

/* Once the kernel's blocks have been read, and once its tracebacks have. 0 or a negative errno. */
int read_books_blocks(struct collector *collector, const struct books_lane *lane);
int read_books_stacks(struct collector *collector, const struct books_lane *lane);

/* Blocks know their births to a second, whatever the interval of snapshots. Returns when to call it again, ns; UINT64_MAX: never. */
uint64_t keep_births(struct collector *collector, const struct books_lane *lane);

/* Adds the losses that both kinds of books have. NULL: no books. */
void add_books_losses(struct books *books, uint64_t *loss);

/* 0 or a negative errno. NULL: there is nothing to describe. */
int describe_books(struct snapshot_builder *builder, struct books *books);

#endif
