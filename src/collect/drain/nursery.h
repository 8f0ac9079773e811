/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_NURSERY_H
#define ALLOCSNAP_COLLECT_DRAIN_NURSERY_H

/* The loader's access to the map `nursery`, where young blocks are stored (bpf/account/nursery.bpf.h). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct bpf_map;
struct drained_blocks;

/* Zeroed: not in use. */
struct nursery {
	struct nursery_place *place; /* the mapped memory of the map */
	uint64_t mask;
};

/* 0 or a negative errno. */
int nursery_open(struct nursery *nursery, const struct bpf_map *map);
void nursery_close(struct nursery *nursery);

/*
 * Adds the blocks that were born in epoch `last` or before. Call it before the map of blocks is read, because
 * blocks move from the nursery to that map. 0, -ENOMEM, or -EBUSY: a place stays busy.
 */
int nursery_read(const struct nursery *nursery, uint64_t last, struct drained_blocks *to);

/* Whether the block is in the nursery now; if so, copies it to *ret. */
bool nursery_find(const struct nursery *nursery, const struct block_key *key, struct block *ret);

typedef bool (*nursery_is_gone_fn)(const void *what, uint64_t image);

/* Removes the blocks of process images for which is_gone() returns true. */
void nursery_sweep(const struct nursery *nursery, nursery_is_gone_fn is_gone, const void *what);

/* Call when these blocks have been deleted from the map of blocks. */
void nursery_forget(const struct nursery *nursery, const struct block_key *key, size_t nr);

#endif
