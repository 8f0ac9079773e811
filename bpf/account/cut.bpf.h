/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CUT_BPF_H
#define ALLOCSNAP_CUT_BPF_H

/*
 * A snapshot is one instant, though the map is read for seconds and nobody waits.
 *
 *	loader		sets cut = epoch; adds 1 to epoch; waits for the programs that run (a grace
 *			period of RCU); reads the map; sets cut = 0
 *	each program	reads epoch once: all that it does belongs to that epoch
 *
 * All programs of the epochs till the cut are through before the map is read, so what is live at the
 * cut is in it, marked by the epoch of its birth; what came later is left out. Only what leaves while
 * the map is read would be missed: a program of a later epoch hands it over before it takes it out.
 */

#include "maps.bpf.h"

extern __u64 epoch; /* from 1 on */
extern __u64 cut;   /* the last epoch of the snapshot that is being taken; 0: none is */

/* Once in each program that enters or removes blocks. */
static __always_inline __u64 read_epoch(void)
{
	return *(volatile __u64 *)&epoch;
}

/* Whether the loader finds a block that leaves the place where it looks for it. */
static __always_inline bool is_handed_over(const struct block_key *key, const struct block *block,
					   __u64 now)
{
	__u64 last = *(volatile __u64 *)&cut; /* after epoch: a program behind the cut sees it */
	struct handed_key which = { .key = *key, .birth_ns = block->birth_ns };
	struct handed_block handed;

	if (!last || now <= last || block->epoch > last)
		return true;
	handed = (struct handed_block){ .block = *block, .left = now };
	return !bpf_map_update_elem(&handed_blocks, &which, &handed, BPF_ANY);
}

/*
 * Before a block leaves the place where the loader looks for it: the map, its place in the nursery, or the
 * realloc that it is in. It may have seen it there, and will know it again by its birth. What is left from an
 * earlier snapshot has an epoch that is not after the cut.
 */
static __always_inline void block_hand_over(struct process *process, const struct block_key *key,
					    const struct block *block, __u64 now)
{
	if (!is_handed_over(key, block, now))
		__sync_fetch_and_add(&process->loss[LOSS_blocks_not_handed], 1);
}

#endif
