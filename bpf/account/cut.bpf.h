/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CUT_BPF_H
#define ALLOCSNAP_CUT_BPF_H

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

#include "maps.bpf.h"

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
	__u64 last = *(volatile __u64 *)&cut; /* read after epoch, so that a program after the cut sees it */
	struct handed_key which = { .key = *key, .birth_ns = block->birth_ns };
	struct handed_block handed;

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

#endif
