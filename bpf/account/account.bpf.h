/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ACCOUNT_BPF_H
#define ALLOCSNAP_ACCOUNT_BPF_H

/* The counters of a process, and how a block enters and leaves the account. */

#include "account/admit.bpf.h"
#include "account/nursery.bpf.h"
#include "account/sample.bpf.h"
#include "maps.bpf.h"

/*
 * Blocks that had no room in the map of blocks. A note of each has its key and size. So its free is not counted as the
 * free of an unknown block, and the recording knows how many bytes it lacks:
 *
 *	blocks_dropped = dropped_frees + dropped_blocks (live) + drops_unnoted
 *
 * Mappings have no notes, because their pages may leave one by one.
 */

extern __u64 any_dropped; /* for the loader: whether a block was ever dropped */
extern __u64 notes_most;  /* the most notes of one process; the loader sets it */

static __always_inline void count_dropped(struct process *process, __s64 blocks, __s64 bytes)
{
	__sync_fetch_and_add(&process->counter[COUNTER_dropped_blocks], blocks);
	__sync_fetch_and_add(&process->counter[COUNTER_dropped_bytes], bytes);
}

static __always_inline long dropped_note(const struct block_key *key, __u64 size, __u64 flags)
{
	int err;

	if (is_mapping(block_key_layer(key)))
		return -ENOSPC;
	free_filter_count(key, 1);
	err = bpf_map_update_elem(&dropped_blocks, key, &size, flags);
	if (err)
		free_filter_count(key, -1);
	return err;
}

/* Counts a dropped block that gets no note: its free will be unknown. */
static __always_inline void drop_unnoted(struct process *process)
{
	__sync_fetch_and_add(&process->loss[LOSS_blocks_dropped], 1);
	__sync_fetch_and_add(&process->loss[LOSS_drops_unnoted], 1);
}

/* Counts the block before it adds the note: a free looks for a note only if the count is not 0. */
static __always_inline void dropped_enter(struct process *process, const struct block_key *key,
					  __u64 size)
{
	__sync_fetch_and_add(&process->loss[LOSS_blocks_dropped], 1);
	count_dropped(process, 1, size);
	if (!any_dropped)
		any_dropped = 1;
	if (process->counter[COUNTER_dropped_blocks] <= notes_most && !dropped_note(key, size, BPF_ANY))
		return;
	count_dropped(process, -1, -size);
	__sync_fetch_and_add(&process->loss[LOSS_drops_unnoted], 1);
}

/* Returns the size of the block; NULL: no note. */
static __always_inline __u64 *dropped_find(struct process *process, const struct block_key *key)
{
	return process->counter[COUNTER_dropped_blocks] ?
		       bpf_map_lookup_elem(&dropped_blocks, key) : NULL;
}

/* Removes the note. Does not change the counters. */
static __always_inline bool dropped_take(struct process *process, const struct block_key *key,
					 __u64 *ret_size)
{
	__u64 *found = dropped_find(process, key);

	if (!found)
		return false;
	*ret_size = *found;
	if (bpf_map_delete_elem(&dropped_blocks, key))
		return false;
	free_filter_count(key, -1);
	return true;
}

static __always_inline void dropped_count_freed(struct process *process, __u64 size)
{
	count_dropped(process, -1, -size);
	__sync_fetch_and_add(&process->counter[COUNTER_dropped_frees], 1);
}

static __always_inline bool dropped_free(struct process *process, const struct block_key *key)
{
	__u64 size;

	if (!dropped_take(process, key, &size))
		return false;
	dropped_count_freed(process, size);
	return true;
}

/* The block was not freed, so its note comes back. If its address has another block by now, it was freed. */
static __always_inline void dropped_put_back(struct process *process, const struct block_key *key,
					     __u64 size)
{
	bool is_taken = nursery_has(key) || bpf_map_lookup_elem(&blocks, key);
	long err = is_taken ? -EEXIST : dropped_note(key, size, BPF_NOEXIST);

	if (err == -EEXIST) {
		dropped_count_freed(process, size);
	} else if (err) {
		count_dropped(process, -1, -size);
		__sync_fetch_and_add(&process->loss[LOSS_drops_unnoted], 1);
	}
}

static __always_inline void process_add_counter(struct process *process, enum counter counter, __u64 n)
{
	__sync_fetch_and_add(&process->counter[counter], n);
}

static __always_inline void process_count_loss(struct process *process, enum loss loss)
{
	__sync_fetch_and_add(&process->loss[loss], 1);
}

#define PEAK_TRIES 8

/* Raises a peak to current. A program that loses 8 races in a row gives up. */
static __always_inline void raise_peak(struct process *process, enum counter counter, __u64 current)
{
	__u64 *peak = &process->counter[counter];

	for (int i = 0; i < PEAK_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)peak;

		if (seen >= current || __sync_val_compare_and_swap(peak, seen, current) == seen)
			return;
	}
}

static __always_inline void count_sampled(struct process *process, struct estimate estimate, __s64 n)
{
	if (estimate.is_sample)
		process_add_counter(process, COUNTER_sampled_blocks, n);
}

/*
 * Wakes the loader once when the live bytes reach the limit that the loader has set. The loader sets the next limit.
 * The limit 0 means never: 0 - 1 is larger than any number of bytes.
 */
static __always_inline void ring_if_reached(struct process *process, __u64 current_bytes)
{
	__u64 at = *(volatile __u64 *)&process->ring_at_bytes;

	if (at - 1 >= current_bytes)
		return;
	if (__sync_val_compare_and_swap(&process->ring_at_bytes, at, 0) == at)
		ring(bpf_get_current_pid_tgid() >> 32);
}

static __always_inline void count_entered(struct process *process, struct estimate estimate)
{
	__u64 *current = process->counter;
	__u64 bytes = __sync_fetch_and_add(&current[COUNTER_current_bytes], estimate.bytes);
	__u64 blocks_before = __sync_fetch_and_add(&current[COUNTER_current_blocks], estimate.blocks);

	process_add_counter(process, COUNTER_allocations, estimate.blocks);
	process_add_counter(process, COUNTER_allocated_bytes, estimate.bytes);
	count_sampled(process, estimate, 1);
	raise_peak(process, COUNTER_peak_bytes, bytes + estimate.bytes);
	raise_peak(process, COUNTER_peak_blocks, blocks_before + estimate.blocks);
	ring_if_reached(process, bytes + estimate.bytes);
}

static __always_inline void count_removed_block(struct process *process, struct estimate estimate)
{
	process_add_counter(process, COUNTER_current_bytes, -estimate.bytes);
	process_add_counter(process, COUNTER_current_blocks, -estimate.blocks);
	process_add_counter(process, COUNTER_frees, estimate.blocks);
	process_add_counter(process, COUNTER_freed_bytes, estimate.bytes);
	count_sampled(process, estimate, -1);
}

/* n is 1: a block is about to enter the map. n is -1: the block has left, or failed to enter. */
static __always_inline void block_counted(struct nursery_place *place, const struct block_key *key, __s64 n)
{
	free_filter_count(key, n);
	if (place)
		__sync_fetch_and_add(&place->mapped, n);
}

/* place: nursery_at() of the key. Returns 0 or the error of the map. The block is counted first: a free may come as soon as it is in the map. */
static __always_inline long block_add(struct nursery_place *place, const struct block_key *key,
				      const struct block *block, __u64 flags)
{
	int err;

	block_counted(place, key, 1);
	err = bpf_map_update_elem(&blocks, key, block, flags);
	if (err)
		block_counted(place, key, -1);
	return err;
}

/* Moves a block from the map to *block. Does not change the counters. */
static __always_inline bool block_take_mapped(struct process *process, struct nursery_place *place,
					      const struct block_key *key, struct block *block, __u64 now)
{
	struct block *found = bpf_map_lookup_elem(&blocks, key);

	if (!found)
		return false;
	*block = *found;
	block_hand_over(process, key, block, now);
	if (bpf_map_delete_elem(&blocks, key))
		return false;
	block_counted(place, key, -1);
	return true;
}

/*
 * Moves a block from the account to *block. Does not change the counters. Returns 0, -ENOENT, or -EBUSY if the block
 * was not found but may have been moving.
 */
static __always_inline long block_look(struct process *process, const struct block_key *key,
				       struct block *block, __u64 now)
{
	struct nursery_place *place = nursery_at(key);
	__u64 state = NURSERY_EMPTY;

	if (place && nursery_seize(place, key, block, &state)) {
		block_hand_over(process, key, block, now);
		place_leave(place, state, NURSERY_EMPTY);
		return 0;
	}
	if (place && NURSERY_IS(state) != NURSERY_BUSY && !place->mapped)
		return -ENOENT;
	if (block_take_mapped(process, place, key, block, now))
		return 0;
	return NURSERY_IS(state) == NURSERY_BUSY ? -EBUSY : -ENOENT;
}

static __always_inline bool block_take(struct process *process, const struct block_key *key,
				       struct block *block, __u64 now)
{
	long err = block_look(process, key, block, now);

	if (err == -EBUSY)
		process_count_loss(process, LOSS_blocks_unsettled);
	return !err;
}

/* The account still have a block at an address that was given out again: its free was not seen. */
static __always_inline void block_replaced(struct process *process, const struct block_key *key,
					   const struct block *missed)
{
	process_count_loss(process, missed->birth_ns < resumed_ns(process) ? LOSS_blocks_gone_in_gap :
									      LOSS_blocks_replaced);
	count_removed_block(process, estimate_of(key, missed));
}

/* Moves the block in a place, of any process, to the map. Returns 0, or an error if it cannot move. */
static __always_inline long nursery_move(struct nursery_place *place, __u64 now)
{
	struct block block = nursery_block(place);

	if (!is_handed_over(&place->key, &block, now))
		return -ENOSPC; /* the loader could find the block twice */
	return block_add(place, &place->key, &block, BPF_NOEXIST);
}

/* Returns whether the block lies in its nursery place now. */
static __always_inline bool nursery_put(struct nursery_place *place, const struct block_key *key,
					const struct block *block, __u64 now)
{
	__u64 state = place_state(place);

	if (NURSERY_IS(state) == NURSERY_BUSY || !place_seize(place, state))
		return false;
	if (NURSERY_IS(state) == NURSERY_FULL && nursery_move(place, now)) {
		place_leave(place, state, NURSERY_FULL);
		return false;
	}
	place_fill(place, state, key, block);
	return true;
}

/* The most blocks that one process may hold. The loader sets it by what other processes hold. */
extern __u64 blocks_most;

static __always_inline bool has_block_share(const struct process *process)
{
	return held_blocks(process) < blocks_most;
}

/*
 * Puts a block under its address. If another block is still there, its free was not seen. Without has_share the block
 * gets no room. A global function: the deepest chains of calls do not need its stack, and the verifier checks it once.
 * Maps take keys and values from its own stack (before kernel 6.2).
 */
__weak __noinline int block_put(struct process *process, const struct block_key *at, const struct block *new,
				int has_share, __u64 now)
{
	struct nursery_place *place;
	struct block_key key;
	struct block block, missed;
	int err = -EEXIST;

	if (!process || !at || !new)
		return -ENOSPC;
	key = *at;
	block = *new;
	place = nursery_at(&key);
	if (dropped_free(process, &key))
		process_count_loss(process, LOSS_blocks_replaced);
	if (!place && has_share)
		err = block_add(NULL, &key, &block, BPF_NOEXIST);
	if (err == -EEXIST) {
		if (!block_look(process, &key, &missed, now))
			block_replaced(process, &key, &missed);
		if (has_share && place && !block.weight && nursery_put(place, &key, &block, now))
			return 0;
		err = has_share ? block_add(place, &key, &block, BPF_ANY) : -ENOSPC;
	}
	if (err)
		dropped_enter(process, &key, block.size);
	return err;
}

/* Puts a block back. Returns -EEXIST if the address has another block now. */
static __always_inline long block_put_back(const struct block_key *key, const struct block *block)
{
	return nursery_has(key) ? -EEXIST : block_add(nursery_at(key), key, block, BPF_NOEXIST);
}

#endif
