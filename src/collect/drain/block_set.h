/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_BLOCK_SET_H
#define ALLOCSNAP_COLLECT_DRAIN_BLOCK_SET_H

/*
 * The blocks of one pass over all accounting, by process image. There may be very many: they are stored in chunks,
 * each filled once and never moved. A block keeps only the fields that a snapshot needs.
 *
 *	image[i] ──► chunk ──► chunk ──► …
 */

#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "shared/bpf_types.h"

struct drained_block {
	uint64_t address;
	uint64_t size;
	uint64_t traceback;
	uint64_t birth_ns;
	uint32_t thread : 22;
	uint32_t rate : 2; /* index of the sampling rate */
	uint32_t domain : 8;
	uint32_t layer;
};
_Static_assert(sizeof(struct drained_block) == 40, "what a drain takes for a block");

struct block_chunk {
	struct block_chunk *next;
	size_t nr, room;
	uint64_t *weight; /* of block[i], from the process's own sampler; 0: it gave none. NULL: no block has one */
	struct drained_block block[];
};

struct image_blocks {
	uint64_t image;
	size_t nr; /* in all chunks */
	struct block_chunk *chunk; /* the first one is filled next */
};

/* Zeroed: none. */
struct drained_blocks {
	struct image_blocks *image;
	size_t image_nr, image_alloc;
	struct idmap ids;
	size_t latest; /* index of the image looked up last */
};

/* 0 or -ENOMEM. */
int drained_blocks_add(struct drained_blocks *blocks, const struct block_key *key,
		       const struct block *block);

/* NULL: no blocks. */
const struct image_blocks *drained_blocks_of(const struct drained_blocks *blocks, uint64_t image);

struct block_key drained_block_key(const struct image_blocks *image,
				   const struct drained_block *block);

typedef bool (*drained_blocks_keep_fn)(const void *what, const struct block_key *key,
				       uint64_t birth_ns);

/* Removes the blocks for which keep() returns false. */
void drained_blocks_filter(struct drained_blocks *blocks, drained_blocks_keep_fn keep,
			   const void *what);

void drained_blocks_release(struct drained_blocks *blocks);

#endif
