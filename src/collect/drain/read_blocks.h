/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_READ_BLOCKS_H
#define ALLOCSNAP_COLLECT_READ_BLOCKS_H

/*
 * Reading the map of blocks out, by two threads: one reads 2 to 3 million blocks a second, which
 * is little where there are ten million. bpf_map_lookup_batch() of a hash map goes from bucket to bucket,
 * each read under its lock, and the position that it gives is the number of the next one
 * (kernel/bpf/hashtab.c, __htab_map_lookup_and_delete_batch(), since it came with 5.6); so a second
 * reader begins in the middle. Nobody has promised that: block_source_has_positions() tries it out, and
 * positions that go back or out of range make one reader read all again.
 *
 *	buckets    0 ……………………………… middle ……………………………… end
 *	reader 0   ├──────────────────────┼╌╌╌┤ border: the last batch may reach over
 *	reader 1                          ├──────────────────────┤
 *
 * What is in the border may be among the blocks that the second reader found, too: who unites what was
 * found with what was handed over (cut.c) does it with these as well.
 */

#include "collect/drain/drained_blocks.h"

/* A map of blocks, or what tests have in its place. */
struct block_source {
	/* As bpf_map_lookup_batch(): from may be NULL, which is the begin. */
	int (*read)(const struct block_source *source, const uint64_t *from, uint64_t *ret_next,
		    struct block_key *key, struct block *block, uint32_t *nr);
	uint64_t bucket_nr; /* 0: positions are not known to be buckets */
	int fd;
};

struct blocks_read {
	struct drained_blocks part[2];
	struct pending_block *border;
	size_t border_nr, border_alloc;
};

/* The map behind a descriptor, of max_entries. */
struct block_source block_source(int fd, uint32_t max_entries);

/* Reads a map of its own by two readers and looks whether all is there: of this kernel it is known then. */
bool block_source_has_positions(void);

/*
 * Reads what was born in the epoch `last` or before. 0, or the negative errno of the system call, -ENOMEM.
 * Release *ret in either case.
 */
int read_blocks(const struct block_source *source, uint64_t last, struct blocks_read *ret);

void blocks_read_release(struct blocks_read *read);

#endif
