/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DROPPED_BPF_H
#define ALLOCSNAP_DROPPED_BPF_H

/*
 * Blocks that had no room in the map of blocks. A note of each has its key and size. So its free is not counted as the
 * free of an unknown block, and the recording knows how many bytes it lacks:
 *
 *	blocks_dropped = dropped_frees + dropped_blocks (live) + drops_unnoted
 *
 * Mappings have no notes, because their pages may leave one by one.
 */

#include "maps.bpf.h"
#include "account/nursery.bpf.h"
#include "account/sample.bpf.h"

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
	pairing_count(key, 1);
	err = bpf_map_update_elem(&dropped_blocks, key, &size, flags);
	if (err)
		pairing_count(key, -1);
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
	pairing_count(key, -1);
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

#endif
