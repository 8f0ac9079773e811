/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SAMPLER_SAMPLED_SET_H
#define ALLOCSNAP_SAMPLER_SAMPLED_SET_H

/*
 * The sampled blocks that are live. No locks: a signal handler or a forked child may find it in any state.
 *
 *	address ── page number mod 64 Ki ──► filter: a count of sampled blocks; 0: the block is no sample
 *	address ── hash ──► two buckets of eight slots: the addresses themselves
 *
 * The filter goes by the page and not by a hash, so blocks that lie together ask for the same line of the cache. It
 * has 64 KiB, and aliases begin at 256 MiB. The set has room for SET_BUCKETS × 8 blocks, 1.5 MiB, touched where it is used.
 */

#include <stdbool.h>
#include <stdint.h>

#include "sampler/poisson.h"

#define FILTER_PLACES 65536
#define SET_BUCKETS 8192
#define FILTER_ALWAYS 255 /* the count has no more room, or a page is always asked about */

struct sampled_block {
	uint64_t size, weight;
};

/* A bucket's addresses are one line of the cache. 0: free; SLOT_TAKEN: its block is being entered */
#define SLOT_TAKEN 1

static uint8_t filter[FILTER_PLACES] __attribute__((aligned(64)));
static struct {
	uint64_t address[8];
} set_bucket[SET_BUCKETS] __attribute__((aligned(64)));
static struct {
	struct sampled_block block[8];
} set_block[SET_BUCKETS];

static inline uint8_t *filter_place(uint64_t address)
{
	return &filter[address >> 12 & (FILTER_PLACES - 1)];
}

static inline bool filter_may_have(uint64_t address)
{
	return __atomic_load_n(filter_place(address), __ATOMIC_RELAXED);
}

static void filter_count(uint64_t address, int by)
{
	uint8_t *place = filter_place(address), old = __atomic_load_n(place, __ATOMIC_RELAXED);

	while (old != FILTER_ALWAYS &&
	       !__atomic_compare_exchange_n(place, &old, old + by, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

/* Slot i (0 to 15) of an address. */
static inline unsigned int set_bucket_of(uint64_t address, int i)
{
	return poisson_mix(address) >> (i < 8 ? 0 : 32) & (SET_BUCKETS - 1);
}

static bool set_change_slot(uint64_t *slot, uint64_t from, uint64_t to)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE) == from &&
	       __atomic_compare_exchange_n(slot, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Before the program knows the address. Returns false if there is no room. */
static bool set_enter(uint64_t address, struct sampled_block block)
{
	for (int i = 0; i < 16; i++) {
		unsigned int nr = set_bucket_of(address, i);
		uint64_t *slot = &set_bucket[nr].address[i % 8];

		if (!set_change_slot(slot, 0, SLOT_TAKEN))
			continue;
		set_block[nr].block[i % 8] = block;
		__atomic_store_n(slot, address, __ATOMIC_RELEASE);
		filter_count(address, 1);
		return true;
	}
	return false;
}

/* Before the address can be given out again. Returns false if the block is no sample. */
static bool set_remove(uint64_t address, struct sampled_block *ret_block)
{
	if (address <= SLOT_TAKEN)
		return false;
	for (int i = 0; i < 16; i++) {
		unsigned int nr = set_bucket_of(address, i);
		uint64_t *slot = &set_bucket[nr].address[i % 8];
		struct sampled_block block;

		if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) != address)
			continue;
		block = set_block[nr].block[i % 8];
		if (!set_change_slot(slot, address, 0))
			continue;
		filter_count(address, -1);
		*ret_block = block;
		return true;
	}
	return false;
}

#endif
