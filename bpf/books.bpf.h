/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BOOKS_BPF_H
#define ALLOCSNAP_BOOKS_BPF_H

/* The counters of a process, and a block that enters or leaves the map. */

#include "admit.bpf.h"
#include "cut.bpf.h"
#include "dropped.bpf.h"
#include "sample.bpf.h"

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

static __always_inline void count_sampled(struct process *process, __s64 n)
{
	if (settings.sample_bytes)
		count(process, COUNTER_sampled_blocks, n);
}

/*
 * Wakes the loader when what is live has risen to where it wants to know, once: it says where it
 * wants to know next. One less than 0 is more than anything.
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

	count(process, COUNTER_allocations, estimate.blocks);
	count(process, COUNTER_allocated_bytes, estimate.bytes);
	count_sampled(process, 1);
	raise_peak(process, COUNTER_peak_bytes, bytes + estimate.bytes);
	raise_peak(process, COUNTER_peak_blocks, blocks_before + estimate.blocks);
	ring_if_reached(process, bytes + estimate.bytes);
}

static __always_inline void count_removed(struct process *process, struct estimate estimate)
{
	count(process, COUNTER_current_bytes, -estimate.bytes);
	count(process, COUNTER_current_blocks, -estimate.blocks);
	count(process, COUNTER_frees, estimate.blocks);
	count(process, COUNTER_freed_bytes, estimate.bytes);
	count_sampled(process, -1);
}

/* 0 or the error of the map. Whoever frees it from now on must find it counted. */
static __always_inline long block_add(const struct block_key *key, const struct block *block,
				      __u64 flags)
{
	long err;

	pairing_count(key, 1);
	err = bpf_map_update_elem(&blocks, key, block, flags);
	if (err)
		pairing_count(key, -1);
	return err;
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
	if (bpf_map_delete_elem(&blocks, key))
		return false;
	pairing_count(key, -1);
	return true;
}

/* Puts a block under its address; one that is still there was freed without our seeing it. */
static __always_inline long block_put(struct process *process, const struct block_key *key,
				      const struct block *block, __u64 now)
{
	struct block missed;
	long err;

	if (dropped_free(process, key))
		lose(process, LOSS_blocks_replaced);
	err = block_add(key, block, BPF_NOEXIST);

	if (err == -EEXIST) {
		if (block_take(process, key, &missed, now)) {
			lose(process, missed.birth_ns < resumed_ns(process) ?
					      LOSS_blocks_gone_in_gap : LOSS_blocks_replaced);
			count_removed(process, estimate_of(key, &missed));
		}
		err = block_add(key, block, BPF_ANY);
	}
	if (err)
		dropped_enter(process, key, block->size);
	return err;
}

#endif
