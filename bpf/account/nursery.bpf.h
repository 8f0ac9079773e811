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

#include "account/layers.bpf.h"
#include "maps.bpf.h"

/*
 * A snapshot shows one instant, although the loader reads the map for seconds and no process waits.
 *
 *	loader		sets cut = epoch; adds 1 to epoch; waits for the running programs (an RCU grace
 *			period); reads the map; sets cut = 0
 *	each program	reads epoch once; all that it does belongs to that epoch
 *
 * All programs of the epochs up to the cut have ended before the loader reads the map. So the map has every block
 * that is live at the cut, with the epoch of its birth. The loader leaves out blocks of later epochs. It would miss
 * only a block that leaves while it reads: a program of a later epoch hands such a block over before it removes it.
 */

extern __u64 epoch; /* starts at 1 */
extern __u64 cut;   /* the last epoch of the snapshot that is being taken; 0: none */

/* Each program that enters or removes blocks calls this once. */
static __always_inline __u64 read_epoch(void)
{
	return *(volatile __u64 *)&epoch;
}

/* Returns whether the loader finds a block that leaves its place, or does not need it. */
static __always_inline bool is_handed_over(const struct block_key *key, const struct block *block,
					   __u64 now)
{
	struct handed_key which = { .key = *key, .birth_ns = block->birth_ns };
	struct handed_block handed;
	__u64 last;

	order_memory(&which); /* epoch was read before, so a program after the cut sees it */
	last = *(volatile __u64 *)&cut;
	if (!last || now <= last || block->epoch > last)
		return true;
	handed = (struct handed_block){ .block = *block, .left = now };
	return !bpf_map_update_elem(&handed_blocks, &which, &handed, BPF_ANY);
}

/*
 * Call this before a block leaves the place where the loader looks for it: the map, its nursery place, or a pending
 * realloc. If the loader has already read the block there, it recognizes the copy by its birth. A copy that is left
 * from an earlier snapshot has an epoch that is not after the cut.
 */
static __always_inline void block_hand_over(struct process *process, const struct block_key *key,
					    const struct block *block, __u64 now)
{
	if (!is_handed_over(key, block, now))
		__sync_fetch_and_add(&process->loss[LOSS_blocks_not_handed], 1);
}

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
	__u64 state = *(volatile const __u64 *)&place->state;

	order_memory(&place->state);
	return state;
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
	order_memory(&place->state);
	*(volatile __u64 *)&place->state = NURSERY_STATE(state + NURSERY_CHANGE, is);
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
