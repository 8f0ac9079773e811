/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_SAMPLER_IMAGE_H
#define ALLOCSNAP_INJECT_SAMPLER_IMAGE_H

/*
 * The content of the memory file for one allocator:
 *
 *	the file as built, with its trampolines, sites, interval and seed	mapped from `start` on
 *	a copy of each page of the allocator that gets jumps, still without	mapped over that page
 *	struct injected_table							not mapped
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/entry_patch.h"
#include "sampler/injected.h"

struct inject_allocator;
struct injected_file;
struct planned_allocator;

struct sampler_image {
	uint8_t *byte;
	size_t bytes;
	struct injected_table *table; /* in it: the addresses, and what the caller fills in of its owner */
};

/* Memory that the process needs for it, in one piece. */
uint64_t sampler_image_room(const struct injected_file *file, const struct inject_allocator *allocator);

struct sampler_image_options {
	uint64_t start;	      /* where it will be mapped */
	uint64_t first_start; /* where the sampler of the first allocator will be: it works for all */
	uint64_t interval;
	bool has_unseen_new; /* of any allocator */
};

/*
 * Builds it, and says in *allocator where the copies of its pages are. 0; -ENOTSUP: something would be out of reach; -EIO;
 * -ENOMEM.
 */
int sampler_image_build(const struct injected_file *file, struct inject_allocator *allocator,
			const struct planned_allocator *planned, const struct sampler_image_options *options,
			struct sampler_image *ret, struct reason *why);

/* The jump from a function's entry to its hook. False: out of reach, or on two pages. */
bool injected_jump(const struct injected_table *table, uint64_t function, uint8_t ret[ENTRY_JUMP_BYTES]);
void sampler_image_release(struct sampler_image *image);

/* The file that is injected (sampler/injected.c), as it was built; it is part of this program. */

#define INJECTED_SEGMENTS_MAX 4

/* Pages that are mapped alike. */
struct injected_segment {
	uint64_t vaddr, bytes; /* multiples of pages */
	uint64_t offset;       /* in the file */
	int prot;	       /* PROT_… */
	bool is_zero;	       /* not from the file */
};

struct injected_file {
	const uint8_t *byte;
	size_t bytes;
	uint32_t segment_nr;
	struct injected_segment segment[INJECTED_SEGMENTS_MAX];
	uint64_t end;	   /* of all segments */
	uint64_t text_end; /* code: [0, text_end) */
};

/* 0 or -EIO: it was built wrongly. */
int injected_file_open(struct injected_file *ret);

/* The address of a symbol, relative to the beginning; 0: no such symbol. ret_bytes may be NULL. */
uint64_t injected_file_symbol(const struct injected_file *file, const char *name, uint64_t *ret_bytes);

#endif
