// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/drain/free_filter.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/bpf_types.h"

#define ENTRIES_LEAST (1u << 16)
#define ENTRIES_MOST (1u << 22)
#define ENTRIES_FOR_BLOCK 4 /* then at most one in five frees of unknown blocks is looked up */

/* Number of blocks that fit into the physical memory, with this sampling distance or size. */
static uint64_t blocks_expected(uint64_t bytes_each, uint64_t max_blocks)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
	uint64_t nr = bytes_each ? memory / bytes_each : max_blocks;

	return nr < max_blocks ? nr : max_blocks;
}

uint32_t pairing_entries(uint64_t sample_bytes, uint64_t least_size, uint64_t max_blocks)
{
	uint64_t each = sample_bytes > least_size ? sample_bytes : least_size;
	uint64_t wanted = ENTRIES_FOR_BLOCK * blocks_expected(each, max_blocks);
	uint32_t nr = ENTRIES_LEAST;

	while (nr < wanted && nr < ENTRIES_MOST)
		nr *= 2;
	return nr;
}

int pairing_open(struct pairing *pairing, const struct bpf_map *map)
{
	size_t nr = bpf_map__max_entries(map);
	void *counter;

	if (nr == 1)
		return 0;
	counter = mmap(NULL, nr * sizeof(*pairing->counter), PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(map), 0);
	if (counter == MAP_FAILED)
		return -errno;
	*pairing = (struct pairing){ counter, nr - 1 };
	return 0;
}

void pairing_close(struct pairing *pairing)
{
	if (pairing->counter)
		munmap(pairing->counter, (pairing->mask + 1) * sizeof(*pairing->counter));
	*pairing = (struct pairing){};
}

void pairing_forget(const struct pairing *pairing, const struct block_key *key, size_t nr)
{
	for (size_t i = 0; i < nr && pairing->counter; i++) {
		uint32_t layer = block_key_layer(&key[i]);

		if (layer != LAYER_MAPPING)
			__atomic_fetch_sub(&pairing->counter[pairing_slot(key[i].address, layer,
									  pairing->mask)],
					   1, __ATOMIC_SEQ_CST);
	}
}
