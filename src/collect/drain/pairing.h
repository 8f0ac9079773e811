/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PAIRING_H
#define ALLOCSNAP_COLLECT_PAIRING_H

/*
 * The map `pairing`, where the programs see that a free is of a block in no book: who takes blocks, or
 * notes of them, out of the maps counts them out here.
 */

#include <stddef.h>
#include <stdint.h>

struct block_key;
struct bpf_map;

/* Zeroed: every block is recorded, there is nothing to count. */
struct pairing {
	uint64_t *counter; /* the map itself */
	uint64_t mask;
};

/* Entries for a recording that chooses blocks; a power of two. least_size: of those it records. */
uint32_t pairing_entries(uint64_t sample_bytes, uint64_t least_size, uint64_t max_blocks);

/* 0 or a negative errno. */
int pairing_open(struct pairing *pairing, const struct bpf_map *map);
void pairing_close(struct pairing *pairing);

/* These have been deleted. */
void pairing_forget(const struct pairing *pairing, const struct block_key *key, size_t nr);

#endif
