/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_STARTS_BPF_H
#define ALLOCSNAP_STARTS_BPF_H

/*
 * The start addresses of the mappings of a process image, in order. A munmap may cut a mapping anywhere, and a
 * hash map cannot find the block that an address lies in.
 *
 * They are a tree of words. Bit i of a word on level 0 says that a mapping begins at page 64 × word + i. Bit i of a
 * word on a higher level says that word 64 × word + i of the level below is not 0. Words that are 0 are not in the map.
 * Finding the nearest start below an address takes at most 2 × START_LEVELS look-ups, for any number of mappings.
 *
 *	level 1            …0000 0001…
 *	                        │
 *	level 0    …0000 0100 0001 0000…       mappings at two pages
 *
 * The tree is changed and read only under the lock of the process (ranges.bpf.h).
 */

#include "maps.bpf.h"

#define PAGE_SHIFT 12 /* of the smallest pages; larger ones begin at fewer places */
#define NO_START (~0ULL)

static __always_inline struct start_key start_key_of(__u64 image, __u32 level, __u64 word)
{
	return (struct start_key){ image, word | (__u64)level << START_LEVEL_SHIFT };
}

/* The number of the highest set bit. Without branches, of which the verifier would check each combination. */
static __always_inline __u64 highest_bit(__u64 word)
{
	for (__u32 step = 1; step < 64; step *= 2)
		word |= word >> step;
	/* All bits below the highest are set: they are counted in pairs, in fours, and in bytes. */
	word -= word >> 1 & 0x5555555555555555ULL;
	word = (word & 0x3333333333333333ULL) + (word >> 2 & 0x3333333333333333ULL);
	word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return (word * 0x0101010101010101ULL >> 56) - 1;
}

/* A global function, like the next two, so that the verifier checks each only once. */
__weak __noinline int starts_remove(__u64 image, __u64 page)
{
	for (__u32 level = 0; level < START_LEVELS; level++) {
		struct start_key key = start_key_of(image, level, page / 64);
		__u64 *word = bpf_map_lookup_elem(&mapping_starts, &key);

		if (!word)
			return 0;
		*word &= ~(1ULL << (page & 63));
		if (*word)
			return 0;
		bpf_map_delete_elem(&mapping_starts, &key);
		page /= 64;
	}
	return 0;
}

/* Returns 0, or -1 if there is no room. After -1 the caller must call starts_remove() for the page. */
__weak __noinline int starts_add(__u64 image, __u64 page)
{
	for (__u32 level = 0; level < START_LEVELS; level++) {
		struct start_key key = start_key_of(image, level, page / 64);
		__u64 bit = 1ULL << (page & 63);
		__u64 *word = bpf_map_lookup_elem(&mapping_starts, &key);

		if (word) {
			*word |= bit;
			return 0;
		}
		if (bpf_map_update_elem(&mapping_starts, &key, &bit, BPF_NOEXIST))
			return -1;
		page /= 64;
	}
	return 0;
}

/* Returns the nearest start before a page, or NO_START. */
__weak __noinline __u64 starts_before(__u64 image, __u64 page)
{
	__u32 found = START_LEVELS;

	for (__u32 level = 0; level < START_LEVELS; level++) {
		struct start_key key = start_key_of(image, level, page / 64);
		__u64 *word = bpf_map_lookup_elem(&mapping_starts, &key);
		__u64 below = word ? *word & ((1ULL << (page & 63)) - 1) : 0;

		page /= 64;
		if (below) {
			page = page * 64 + highest_bit(below);
			found = level;
			break;
		}
	}
	if (found == START_LEVELS)
		return NO_START;
	for (__u32 down = 1; down < START_LEVELS; down++) {
		struct start_key key = start_key_of(image, found - down, page);
		__u64 *word;

		if (down > found)
			break;
		word = bpf_map_lookup_elem(&mapping_starts, &key);
		if (!word || !*word)
			return NO_START;
		page = page * 64 + highest_bit(*word);
	}
	return page;
}

#endif
