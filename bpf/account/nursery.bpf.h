/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NURSERY_BPF_H
#define ALLOCSNAP_NURSERY_BPF_H

/*
 * Where blocks begin. Most are freed soon, and to enter the map of blocks and leave it again costs more
 * than all else that is done for them but the traceback. So a new block lies in the nursery: an array of
 * places, each the size of a cache line, found by a hash of the block's key. When another one comes to the
 * same place it moves to the map, for good.
 *
 *	block_put ──► nursery ──moves──► map
 *		        └──► block_take ◄──┘
 *
 * So a block is in the nursery or in the map, and who looks in this order finds it. A place belongs to whoever
 * has made its state busy; the number in the state tells of each change. Who frees and finds it busy waits.
 */

#include "account/cut.bpf.h"
#include "maps.bpf.h"

extern const volatile struct settings settings;

/* NULL: it can only be in the map. */
static __always_inline struct nursery_place *nursery_at(const struct block_key *key)
{
	__u32 slot;

	if (!settings.nursery_mask || block_key_layer(key) == LAYER_MAPPING)
		return NULL;
	slot = nursery_slot(key, settings.nursery_mask);
	return bpf_map_lookup_elem(&nursery, &slot);
}

static __always_inline __u64 place_state(const struct nursery_place *place)
{
	return *(volatile const __u64 *)&place->state;
}

/* Whether it is ours now. state: as last read. */
static __always_inline bool place_seize(struct nursery_place *place, __u64 state)
{
	return __sync_val_compare_and_swap(&place->state, state,
					   NURSERY_STATE(state, NURSERY_BUSY)) == state;
}

/* What was written to it before is seen by whoever sees the state. */
static __always_inline void place_leave(struct nursery_place *place, __u64 state, __u64 is)
{
#ifdef __TARGET_ARCH_x86
	barrier();
	*(volatile __u64 *)&place->state = NURSERY_STATE(state + NURSERY_CHANGE, is);
#else
	__sync_lock_test_and_set(&place->state, NURSERY_STATE(state + NURSERY_CHANGE, is));
#endif
}

/* Read after the state, and before whatever else is done. */
static __always_inline bool place_has(const struct nursery_place *place, __u64 state,
				      const struct block_key *key)
{
	const volatile struct block_key *lies = &place->key;

	return NURSERY_IS(state) == NURSERY_FULL && lies->address == key->address &&
	       lies->image == key->image;
}

/*
 * A place is busy for a microsecond at most, unless its thread's processor is taken away meanwhile: some
 * milliseconds then, as long as who waits for mappings does.
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

/* The state of a place when nobody has it, or after a while. Inlined, as there is little of the stack left. */
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

/* Whether it was there, and is now in *block and our place with the state *ret_state. */
static __always_inline bool nursery_seize(struct nursery_place *place, const struct block_key *key,
					  struct block *block, __u64 *ret_state)
{
	for (int i = 0; i < TAKE_TRIES; i++) {
		__u64 state = place_settled(place);

		*ret_state = state;
		if (!place_has(place, state, key))
			return false;
		if (place_seize(place, state)) {
			*block = place->block;
			return true;
		}
	}
	return false;
}

/* Whether the block is there. */
static __always_inline bool nursery_has(const struct block_key *key)
{
	struct nursery_place *place = nursery_at(key);

	return place && place_has(place, place_settled(place), key);
}

static __always_inline void place_fill(struct nursery_place *place, __u64 state,
				       const struct block_key *key, const struct block *block)
{
	place->key = *key;
	place->block = *block;
	place_leave(place, state, NURSERY_FULL);
}

#endif
