/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RANGES_BPF_H
#define ALLOCSNAP_RANGES_BPF_H

/*
 * The effect of mmap, munmap and mremap on blocks. A block of the mapping layer is a range of whole pages; its size is
 * the length that the program asked for. A call that removes pages may remove several blocks, or a part of one block:
 * its head, its tail, or its middle. Without its middle a block becomes two.
 *
 *	block       ├──────────────────┤              the parts keep its traceback, thread and birth
 *	cut               ├─────┤
 *	blocks now  ├─────┤     ├──────┤              one more allocation, of 0 new bytes
 *
 * Before a cut the whole block is handed over (nursery.bpf.h); its remaining parts get the current epoch. A lock in the
 * process lets one thread at a time do this. No thread waits long for the lock: a thread that does not get it, or
 * would have to look at too many blocks, counts ranges_missed.
 */

#include "account/admit.bpf.h"
#include "account/account.bpf.h"
#include "unwind/stack.bpf.h"
#include "account/starts.bpf.h"

#define PAGE_MASK settings.page_mask
#define ADDRESS_MAX (1ULL << 56) /* above all addresses of programs */
#define LOCK_TRIES (1u << 16)	 /* at most 0.1 µs each */
#define CUT_BLOCKS_MAX (1u << 16)

static __always_inline __u64 page_up(__u64 bytes)
{
	return (bytes + PAGE_MASK) & ~PAGE_MASK;
}

/* Whether the kernel accepts the range. Otherwise munmap and mremap fail and change nothing. */
static __always_inline bool range_is_sound(__u64 address, __u64 bytes)
{
	return bytes && !(address & PAGE_MASK) && address < ADDRESS_MAX &&
	       bytes <= ADDRESS_MAX - address;
}

/* ---- the lock ---- */

static long try_lock(__u32 nr, void *data)
{
	struct process *process = current_process();

	if (!process || __sync_val_compare_and_swap(&process->mappings_lock, 0, 1))
		return 0;
	*(bool *)data = true;
	return 1;
}

/* Returns false if the thread does not get the lock; this is counted. */
static __always_inline bool mappings_lock(struct process *process)
{
	bool is_ours = false;

	bpf_loop(LOCK_TRIES, try_lock, &is_ours, 0);
	if (!is_ours)
		process_count_loss(process, LOSS_ranges_missed);
	return is_ours;
}

static __always_inline void mappings_unlock(struct process *process)
{
	__sync_val_compare_and_swap(&process->mappings_lock, 1, 0);
}

/* ---- taking pages away ---- */

/* Counts a block that was freed before its thread entered another block. The free in a realloc does not count. */
static __always_inline void record_temporary(struct process *process, const struct block *block,
					     struct estimate estimate)
{
	struct traceback *traceback = bpf_map_lookup_elem(&tracebacks, &block->traceback);

	process_add_counter(process, COUNTER_temporary_blocks, estimate.blocks);
	process_add_counter(process, COUNTER_temporary_bytes, estimate.bytes);
	if (!traceback)
		return;
	__sync_fetch_and_add(&traceback->churn.temporary, estimate.blocks);
	__sync_fetch_and_add(&traceback->churn.temporary_bytes, estimate.bytes);
}

/* Mappings are never sampled. */
static __always_inline void count_removed_mapping(struct process *process, __u64 bytes)
{
	count_removed_block(process, estimate_of_one(bytes));
}

/* Counts that one block has become two. */
static __always_inline void count_split(struct process *process, const struct block *block)
{
	__u64 blocks = __sync_fetch_and_add(&process->counter[COUNTER_current_blocks], 1);
	struct traceback *traceback = bpf_map_lookup_elem(&tracebacks, &block->traceback);

	process_add_counter(process, COUNTER_allocations, 1);
	count_sampled(process, estimate_of_one(0), 1);
	raise_peak(process, COUNTER_peak_blocks, blocks + 1);
	if (traceback)
		__sync_fetch_and_add(&traceback->churn.allocations, 1);
}

/* Whether the range leaves the block alone, because the block is younger than the range allows. */
static __always_inline bool is_spared(const struct range *range, const struct block *block)
{
	return range->born_before && block->birth_ns >= range->born_before;
}

/* Returns 0, or -1 if there is no room; this is counted. The range is empty, or a loss was counted before. */
static __always_inline int range_enter(struct process *process, struct range *range, __u64 address,
				       bool has_share)
{
	struct block_key key = block_key_of(address, range->image, LAYER_MAPPING);

	if (!has_share) {
		drop_unnoted(process);
		return -1;
	}
	if (!starts_add(range->image, address >> PAGE_SHIFT) &&
	    !bpf_map_update_elem(&blocks, &key, &range->block, BPF_NOEXIST))
		return 0;
	starts_remove(range->image, address >> PAGE_SHIFT);
	drop_unnoted(process);
	return -1;
}

/* Puts a remaining part of a block back into the map. */
static __always_inline void range_enter_rest(struct process *process, struct range *range,
					     __u64 address, __u64 bytes)
{
	range->block.size = bytes;
	if (range_enter(process, range, address, true))
		count_removed_mapping(process, bytes);
}

/* Cuts the block of `address`, which is no longer in the map but in range->block. */
static __always_inline void cut_block(struct process *process, struct range *range, __u64 address)
{
	__u64 size = range->block.size, end = address + size;
	__u64 head = address < range->start ? range->start - address : 0;
	__u64 tail = range->end < end ? end - range->end : 0;

	starts_remove(range->image, address >> PAGE_SHIFT);
	range->cut_nr++;
	if (!head && !tail) {
		count_removed_mapping(process, size);
		if (address == range->newest &&
		    range->block.thread == (__u32)bpf_get_current_pid_tgid())
			record_temporary(process, &range->block, estimate_of_one(size));
		return;
	}
	process_add_counter(process, COUNTER_current_bytes, -(size - head - tail));
	process_add_counter(process, COUNTER_freed_bytes, size - head - tail);
	if (head && tail)
		count_split(process, &range->block);
	range->block.epoch = range->now;
	if (head)
		range_enter_rest(process, range, address, head);
	if (tail)
		range_enter_rest(process, range, range->end, tail);
}

/* Scratch memory of the running thread; NULL: it has none. */
static __always_inline struct range *own_range(void)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	return thread ? &thread->range : NULL;
}

/* Cuts the next block below range->before. The loop ends at the first block that lies wholly below the range. */
static long cut_next(__u32 nr, void *data)
{
	struct process *process = current_process();
	struct range *range = own_range();
	struct block_key key;
	struct block *block;

	if (!process || !range)
		return 1;
	range->before = starts_before(range->image, range->before);
	range->is_done = range->before == NO_START;
	if (range->is_done)
		return 1;
	key = block_key_of(range->before << PAGE_SHIFT, range->image, LAYER_MAPPING);
	block = bpf_map_lookup_elem(&blocks, &key);
	if (!block)
		return 0;
	range->is_done = key.address + block->size <= range->start;
	if (range->is_done)
		return 1;
	if (!is_spared(range, block) && block_take(process, &key, &range->block, range->now))
		cut_block(process, range, key.address);
	return 0;
}

/* Removes the pages of a range from all blocks. The caller holds the lock. */
static __always_inline void range_cut(struct process *process, struct range *range)
{
	range->before = range->end >> PAGE_SHIFT;
	bpf_loop(CUT_BLOCKS_MAX, cut_next, NULL, 0);
	if (!range->is_done)
		process_count_loss(process, LOSS_ranges_missed);
}

/*
 * Frees the range and returns how many blocks lost pages. If born_before is set, blocks born after it stay: another
 * thread allocated them, and this call does not free them.
 */
__weak __noinline int range_remove(__u64 address, __u64 bytes, __u64 newest, __u64 born_before,
				   __u64 now)
{
	struct process *process = current_process();
	struct range *range = own_range();

	if (!process || !range || !range_is_sound(address, bytes) || !mappings_lock(process))
		return 0;
	*range = (struct range){
		.image = process->image,
		.start = address,
		.end = address + page_up(bytes),
		.newest = newest,
		.born_before = born_before,
		.now = now,
	};
	range_cut(process, range);
	mappings_unlock(process);
	return range->cut_nr;
}

/*
 * Returns whether munmap will fail although the range is sound. It fails if it would split a mapping of the kernel and
 * the process already has the most mappings that it may have (mm/vma.c, vms_gather_munmap_vmas()). A mapping of the
 * kernel may be larger than a block, because the kernel merges equal neighbours. If the mapping cannot be read now,
 * the range counts as freed, and ranges_missed is counted.
 */
__weak __noinline int munmap_fails(__u64 address, __u64 bytes)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct process *process = current_process();
	struct vma_range vma = {};

	if (!process || (__u32)BPF_CORE_READ(task, mm, map_count) < settings.max_map_count)
		return 0;
	if (bpf_find_vma(task, address, vma_range_of, &vma, 0) == -EBUSY)
		process_count_loss(process, LOSS_ranges_missed);
	return vma.start < address && address + page_up(bytes) < vma.end;
}

/* ---- blocks as a whole ---- */

/* Removes the old blocks in the range, which must be unmapped by now, and enters the block. 0, or -1: no room. */
__weak __noinline int range_put(struct block_key *key, struct block *block, __u64 newest,
				bool has_share, __u64 now)
{
	struct process *process = current_process();
	struct range *range = own_range();
	int err;

	if (!process || !range || !key || !block || !mappings_lock(process))
		return -1;
	*range = (struct range){
		.image = block_key_image(key),
		.start = key->address,
		.end = key->address + page_up(block->size),
		.newest = newest,
		.now = now,
	};
	range_cut(process, range);
	range->block = *block;
	err = range_enter(process, range, key->address, has_share);
	mappings_unlock(process);
	return err;
}

/*
 * Takes out the block that is exactly the range. Returns 1, or 0 if there is no such block. Map keys are copies on the
 * stack, because before kernel 6.2 the argument of a global function is not allowed as a key.
 */
__weak __noinline int range_take(struct block_key *key, __u64 bytes, struct block *ret, __u64 now)
{
	struct process *process = current_process();
	struct block_key own;
	struct block *found;
	int taken = 0;

	if (!process || !key || !ret || !mappings_lock(process))
		return 0;
	own = *key;
	found = bpf_map_lookup_elem(&blocks, &own);
	if (found && page_up(found->size) == page_up(bytes) && block_take(process, &own, ret, now)) {
		starts_remove(block_key_image(&own), own.address >> PAGE_SHIFT);
		taken = 1;
	}
	mappings_unlock(process);
	return taken;
}

/* Returns whether a block lies in the range. The caller holds the lock. */
static __always_inline bool range_is_taken(__u64 image, __u64 start, __u64 end)
{
	__u64 page = starts_before(image, end >> PAGE_SHIFT);
	struct block_key key = block_key_of(page << PAGE_SHIFT, image, LAYER_MAPPING);
	struct block *below = page == NO_START ? NULL : bpf_map_lookup_elem(&blocks, &key);

	return below && key.address + below->size > start;
}

/* Puts a block back. Returns 0, -EEXIST if another block lies there now, or another error: no room. */
__weak __noinline int range_put_back(struct block_key *key, struct block *block)
{
	struct process *process = current_process();
	struct block_key own;
	struct block copy;
	__u64 image;
	int err = 0;

	if (!process || !key || !block || !mappings_lock(process))
		return -1;
	own = *key;
	copy = *block;
	image = block_key_image(&own);
	if (range_is_taken(image, own.address, own.address + page_up(copy.size)))
		err = -EEXIST;
	else if (starts_add(image, own.address >> PAGE_SHIFT) ||
		 bpf_map_update_elem(&blocks, &own, &copy, BPF_NOEXIST))
		err = starts_remove(image, own.address >> PAGE_SHIFT) - 1;
	mappings_unlock(process);
	return err;
}

#endif
