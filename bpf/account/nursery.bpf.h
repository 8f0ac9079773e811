/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NURSERY_BPF_H
#define ALLOCSNAP_NURSERY_BPF_H

/*
 * The nursery holds young blocks. Most blocks are freed soon, and entering and leaving the map of blocks costs more
 * than all other work on a block except its traceback. So a new block goes to the nursery: an array of places, each
 * the size of a cache line. The hash of the block's key gives its place. When another block needs the same place, the
 * older block moves to the map for good.
 *
 *	block_put ──► nursery ──moves──► map
 *		        └──► block_take ◄──┘
 *
 * So a block is in the nursery or in the map, and a program that looks in this order finds it. A place belongs to the
 * program that made its state busy. The number in the state changes with each change of the place. A free that finds
 * the place busy waits.
 */

#include "account/cut.bpf.h"
#include "account/layers.bpf.h"

/* The place of a block; NULL: the block can only be in the map. */
static __always_inline struct nursery_place *nursery_at(const struct block_key *key)
{
	__u32 slot;

	if (!settings.nursery_mask || is_mapping(block_key_layer(key)))
		return NULL;
	slot = nursery_slot(key, settings.nursery_mask);
	return bpf_map_lookup_elem(&nursery, &slot);
}

static __always_inline __u64 place_state(const struct nursery_place *place)
{
	return *(volatile const __u64 *)&place->state;
}

/* Returns whether this program owns the place now. state: the state read last. */
static __always_inline bool place_seize(struct nursery_place *place, __u64 state)
{
	return __sync_val_compare_and_swap(&place->state, state,
					   NURSERY_STATE(state, NURSERY_BUSY)) == state;
}

/* Releases the place with a new state. A program that sees the new state also sees all earlier writes to the place. */
static __always_inline void place_leave(struct nursery_place *place, __u64 state, __u64 is)
{
#ifdef __TARGET_ARCH_x86
	barrier();
	*(volatile __u64 *)&place->state = NURSERY_STATE(state + NURSERY_CHANGE, is);
#else
	__sync_lock_test_and_set(&place->state, NURSERY_STATE(state + NURSERY_CHANGE, is));
#endif
}

/* Returns whether the place has the block. Call it after reading the state and before any other step. */
static __always_inline bool place_has(const struct nursery_place *place, __u64 state,
				      const struct block_key *key)
{
	const volatile struct block_key *lies = &place->key;

	return NURSERY_IS(state) == NURSERY_FULL && lies->address == key->address &&
	       lies->image == key->image;
}

/*
 * A place is busy for at most a microsecond, unless its thread loses the CPU meanwhile. Then it may take some
 * milliseconds; a waiting program waits about as long as for the lock of the mappings.
 */
#define SETTLE_TRIES (1 << 20)

struct place_waiting {
	struct nursery_place *place;
	__u64 state;
};

static long place_check_settled(__u32 nr, void *data)
{
	struct place_waiting *waiting = data;

	waiting->state = place_state(waiting->place);
	return NURSERY_IS(waiting->state) != NURSERY_BUSY;
}

/* Waits until the place is free, up to a limit, and returns its state. Inlined, because little stack is left. */
static __always_inline __u64 place_wait(struct nursery_place *place)
{
	struct place_waiting waiting = { place, NURSERY_BUSY };

	bpf_loop(SETTLE_TRIES, place_check_settled, &waiting, 0);
	return waiting.state;
}

static __always_inline __u64 place_settled(struct nursery_place *place)
{
	__u64 state = place_state(place);

	return NURSERY_IS(state) == NURSERY_BUSY ? place_wait(place) : state;
}

#define TAKE_TRIES 4

/* Seizes the place if it has the block, and copies the block to *block. *ret_state is the state last read. */
static __always_inline bool nursery_seize(struct nursery_place *place, const struct block_key *key,
					  struct block *block, __u64 *ret_state)
{
	for (int i = 0; i < TAKE_TRIES; i++) {
		__u64 state = place_settled(place);

		*ret_state = state;
		if (!place_has(place, state, key))
			return false;
		if (place_seize(place, state)) {
			*block = nursery_block(place);
			return true;
		}
	}
	return false;
}

/* Returns whether the nursery has the block. */
static __always_inline bool nursery_has(const struct block_key *key)
{
	struct nursery_place *place = nursery_at(key);

	return place && place_has(place, place_settled(place), key);
}

static __always_inline void place_fill(struct nursery_place *place, __u64 state,
				       const struct block_key *key, const struct block *block)
{
	place->key = *key;
	__builtin_memcpy(place->block, block, sizeof(place->block));
	place_leave(place, state, NURSERY_FULL);
}

#endif
