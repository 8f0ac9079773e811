/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_INJECT_SAMPLER_IMAGE_H
#define ALLOCSNAP_INJECT_SAMPLER_IMAGE_H

/*
 * The content of the memory file for one allocator (injected_file.h): the file as built has its trampolines, sites,
 * interval and seed (or settings of hooks); the pages behind it are copies of the allocator's pages that get jumps, still without them, and are mapped over
 * these.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/entry_patch.h"
#include "exact/malloc_hooks.h"
#include "inject/injected_file.h"

struct planned_allocator;

/* Memory that the process needs for it, in one piece. */
uint64_t sampler_image_room(const struct injected_file *file, const struct inject_allocator *allocator);

struct sampler_image_options {
	uint64_t start;	      /* where it will be mapped */
	uint64_t first_start; /* where the sampler of the first allocator will be: it works for all */
	uint64_t interval;
	bool has_unseen_new; /* of any allocator */
	const struct malloc_hooks *exact; /* NULL: a sampler; else the file has hooks, and these are their settings */
};

/* 0; -ENOTSUP: something would be out of reach; -EIO; -ENOMEM. */
int sampler_image_build(const struct injected_file *file, const struct inject_allocator *allocator,
			const struct planned_allocator *planned, const struct sampler_image_options *options,
			struct injected_image *ret, struct reason *why);

/* The jump from a function's entry to its hook. False: out of reach, or on two pages. */
bool injected_jump(const struct injected_table *table, uint64_t function, uint8_t ret[ENTRY_JUMP_BYTES]);

#endif
