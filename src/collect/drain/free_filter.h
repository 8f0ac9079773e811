/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_DRAIN_FREE_FILTER_H
#define ALLOCSNAP_COLLECT_DRAIN_FREE_FILTER_H

/*
 * The loader's access to the map `pairing`. The programs use its counters to see that a freed block is not
 * recorded. Code that deletes blocks, or notes of dropped blocks, from the maps must also subtract them here.
 */

#include <stddef.h>
#include <stdint.h>

struct block_key;
struct bpf_map;

/* Zeroed: every block is recorded, so nothing is counted. */
struct pairing {
	uint64_t *counter; /* the mapped memory of the map */
	uint64_t mask;
};

/* Number of entries if only some blocks are recorded; a power of two. least_size: the smallest size recorded. */
uint32_t pairing_entries(uint64_t sample_bytes, uint64_t least_size, uint64_t max_blocks);

/* 0 or a negative errno. */
int pairing_open(struct pairing *pairing, const struct bpf_map *map);
void pairing_close(struct pairing *pairing);

/* Call when these blocks have been deleted. */
void pairing_forget(const struct pairing *pairing, const struct block_key *key, size_t nr);

#endif
