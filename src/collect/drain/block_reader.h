/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_BLOCK_READER_H
#define ALLOCSNAP_COLLECT_DRAIN_BLOCK_READER_H

/*
 * Reads the map of blocks with two threads: one thread reads 2 to 3 million blocks a second, which is slow for ten
 * million blocks. For a hash map, bpf_map_lookup_batch() goes from bucket to bucket and reads each under its lock.
 * The position that it returns is the number of the next bucket (kernel/bpf/hashtab.c,
 * __htab_map_lookup_and_delete_batch(), since its first version in 5.6); so a second reader can start in the middle.
 * The kernel does not guarantee this: block_source_has_positions() tests it, and if a position goes back or is out of
 * range, one reader reads everything again.
 *
 *	buckets    0 ……………………………… middle ……………………………… end
 *	reader 0   ├──────────────────────┼╌╌╌┤ border: the last batch may extend beyond the middle
 *	reader 1                          ├──────────────────────┤
 *
 * The second reader may also return blocks of the border. epoch_cut.c removes these duplicates, together with those between
 * the map and the blocks that were handed over.
 */

#include "collect/drain/block_set.h"

/* A map of blocks, or a replacement in tests. */
struct block_source {
	/* Like bpf_map_lookup_batch(): from is NULL at the start. */
	int (*read)(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
		    struct block_key *key, struct block *block, uint32_t *nr);
	uint64_t bucket_nr; /* 0: positions may not be bucket numbers */
	int fd;
};

struct blocks_read {
	struct drained_blocks part[2];
	struct pending_block *border;
	size_t border_nr, border_alloc;
};

/* The source for the map of this descriptor, with max_entries entries. */
struct block_source block_source(int fd, uint32_t max_entries);

/* Reads a test map with two readers and checks that all entries are found. The result holds for this kernel. */
bool block_source_has_positions(void);

/*
 * Reads the blocks that were born in epoch `last` or before. 0, the negative errno of the system call, or
 * -ENOMEM. The caller releases *ret in each case.
 */
int read_blocks(const struct block_source *source, uint64_t last, struct blocks_read *ret);

void blocks_read_release(struct blocks_read *read);

#endif
