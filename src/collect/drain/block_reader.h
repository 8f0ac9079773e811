/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_BLOCK_READER_H
#define ALLOCSNAP_COLLECT_DRAIN_BLOCK_READER_H

/* Reads the map of blocks, many with each system call: 2 to 3 million blocks a second. */

#include "collect/drain/block_set.h"

/* A map of blocks, or a replacement in tests. */
struct block_source {
	/* Like bpf_map_lookup_batch(): from is NULL at the start. */
	int (*read)(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
		    struct block_key *key, struct block *block, uint32_t *nr);
	int fd;
};

/* The source for the map of this descriptor. */
struct block_source block_source(int fd);

/*
 * Adds the blocks that were born in epoch `last` or before. 0, the negative errno of the system call, or -ENOMEM; some
 * blocks may have been added then.
 */
int read_blocks(const struct block_source *source, uint64_t last, struct drained_blocks *to);

#endif
