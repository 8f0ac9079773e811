/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_EPOCH_CUT_H
#define ALLOCSNAP_COLLECT_DRAIN_EPOCH_CUT_H

/*
 * A snapshot of the accounting of all processes at one instant, while the processes continue to run: the loader's
 * half of bpf/account/nursery.bpf.h.
 */

#include <stddef.h>
#include <stdint.h>

#include "collect/drain/block_set.h"
#include "collect/drain/map_reader.h"

/* Waits until all running BPF programs have ended: an RCU grace period. Zeroed: not created yet. */
struct grace {
	int inner_fd, outer_fd; /* a map inside a map */
};

/*
 * Creates what grace_wait() needs, unless it exists; after that, creating cannot fail in grace_wait(). 0 or a
 * negative errno.
 */
int grace_make(struct grace *grace);

/* Returns when the programs that are running now have ended. 0 or a negative errno. */
int grace_wait(struct grace *grace);

/* Scratch memory; zeroed: none yet. */
struct cut {
	struct grace grace;
	struct map_copy handed; /* struct handed_key → struct handed_block */
	struct pending_block *pending;
	size_t pending_nr, pending_alloc;
};

/*
 * Reads the blocks that were live at one instant, just after the call, into drain->blocks. 0, the negative errno
 * of a system call, or -ENOMEM.
 */
int cut_read_blocks(struct cut *cut, const struct allocsnap_bpf *bpf, const struct nursery *nursery,
		    struct drain *drain);

void cut_release(struct cut *cut);

/* Reads the map of blocks, many with each system call: 2 to 3 million blocks a second. */

/* A map of blocks, or a replacement in tests. */
struct blocks_map {
	/* Like bpf_map_lookup_batch(): from is NULL at the start. */
	int (*read)(const struct blocks_map *map, const uint64_t *from, uint64_t *ret_next,
		    struct block_key *key, struct block *block, uint32_t *nr);
	int fd;
};

/* The map of this descriptor. */
struct blocks_map blocks_map(int fd);

/*
 * Adds the blocks that were born in epoch `last` or before. 0, the negative errno of the system call, or -ENOMEM; some
 * blocks may have been added then.
 */
int read_blocks(const struct blocks_map *map, uint64_t last, struct drained_blocks *to);

#endif
