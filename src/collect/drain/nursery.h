/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_NURSERY_H
#define ALLOCSNAP_COLLECT_NURSERY_H

/* The map `nursery`, where blocks lie while they are young (bpf/account/nursery.bpf.h), as the loader sees it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct bpf_map;
struct drained_blocks;

/* Zeroed: it is not used. */
struct nursery {
	struct nursery_place *place; /* the map itself */
	uint64_t mask;
};

/* 0 or a negative errno. */
int nursery_open(struct nursery *nursery, const struct bpf_map *map);
void nursery_close(struct nursery *nursery);

/*
 * Adds the blocks that were born in this epoch or before. To be called before the map of blocks is read, since
 * blocks move there. 0, -ENOMEM, -EBUSY: a place stays busy.
 */
int nursery_read(const struct nursery *nursery, uint64_t last, struct drained_blocks *to);

/* Whether a block lies there, now. */
bool nursery_find(const struct nursery *nursery, const struct block_key *key, struct block *ret);

typedef bool (*nursery_is_gone_fn)(const void *what, uint64_t image);

/* Takes out the blocks of the process images that are gone. */
void nursery_sweep(const struct nursery *nursery, nursery_is_gone_fn is_gone, const void *what);

/* These have been deleted from the map of blocks. */
void nursery_forget(const struct nursery *nursery, const struct block_key *key, size_t nr);

#endif
