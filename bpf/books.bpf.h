/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BOOKS_BPF_H
#define ALLOCSNAP_BOOKS_BPF_H

/* The counters of a process, and a block that enters or leaves the map. */

#include "maps.bpf.h"
#include "cut.bpf.h"
#include "dropped.bpf.h"

static __always_inline void count(struct process *process, enum counter counter, __u64 n)
{
	__sync_fetch_and_add(&process->counter[counter], n);
}

static __always_inline void lose(struct process *process, enum loss loss)
{
	__sync_fetch_and_add(&process->loss[loss], 1);
}

#define PEAK_TRIES 8

/* Raises a peak to current; one that loses 8 races in a row is left out. */
static __always_inline void raise_peak(struct process *process, enum counter counter, __u64 current)
{
	__u64 *peak = &process->counter[counter];

	for (int i = 0; i < PEAK_TRIES; i++) {
		__u64 seen = *(volatile __u64 *)peak;

		if (seen >= current || __sync_val_compare_and_swap(peak, seen, current) == seen)
			return;
	}
}

static __always_inline void count_entered(struct process *process, __u64 size)
{
	__u64 *current = process->counter;
	__u64 bytes = __sync_fetch_and_add(&current[COUNTER_current_bytes], size);
	__u64 blocks_before = __sync_fetch_and_add(&current[COUNTER_current_blocks], 1);

	count(process, COUNTER_allocations, 1);
	count(process, COUNTER_allocated_bytes, size);
	raise_peak(process, COUNTER_peak_bytes, bytes + size);
	raise_peak(process, COUNTER_peak_blocks, blocks_before + 1);
}

static __always_inline void count_removed(struct process *process, __u64 size)
{
	count(process, COUNTER_current_bytes, -size);
	count(process, COUNTER_current_blocks, -1);
	count(process, COUNTER_frees, 1);
	count(process, COUNTER_freed_bytes, size);
}

/* Takes a block out of the map, into *block, without counting. */
static __always_inline bool block_take(struct process *process, const struct block_key *key,
				       struct block *block, __u64 now)
{
	struct block *found = bpf_map_lookup_elem(&blocks, key);

	if (!found)
		return false;
	*block = *found;
	hand_over(process, key, block, now);
	return bpf_map_delete_elem(&blocks, key) == 0;
}

/* Puts a block under its address; one that is still there was freed without our seeing it. */
static __always_inline long block_put(struct process *process, const struct block_key *key,
				      const struct block *block, __u64 now)
{
	struct block missed;
	long err;

	if (dropped_free(process, key))
		lose(process, LOSS_blocks_replaced);
	err = bpf_map_update_elem(&blocks, key, block, BPF_NOEXIST);

	if (err == -EEXIST) {
		if (block_take(process, key, &missed, now)) {
			lose(process, LOSS_blocks_replaced);
			count_removed(process, missed.size);
		}
		err = bpf_map_update_elem(&blocks, key, block, BPF_ANY);
	}
	if (err)
		dropped_enter(process, key, block->size);
	return err;
}

#endif
