/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RANGES_BPF_H
#define ALLOCSNAP_RANGES_BPF_H

/*
 * What mmap, munmap and mremap do to blocks: those of the layer of mappings are ranges of pages. A
 * block's size is the length that was asked for; it covers whole pages. What takes pages away may
 * take several blocks, or a part of one: its head, its tail, or its middle, so that it becomes two.
 *
 *	block       ├──────────────────┤              traceback, thread, birth: those of the block
 *	cut               ├─────┤
 *	blocks now  ├─────┤     ├──────┤              one more allocation, of 0 new bytes
 *
 * The whole block is handed over before (cut.bpf.h); what is left of it has the epoch of now. All of
 * that is done by one thread at a time, under a lock of the process. No thread waits long for it: who
 * does not get it, or would have to look at too many blocks, says so (ranges_missed).
 */

#include "account/admit.bpf.h"
#include "account/books.bpf.h"
#include "unwind/stack.bpf.h"
#include "account/starts.bpf.h"

#define PAGE_MASK ((1ULL << PAGE_SHIFT) - 1)
#define ADDRESS_MAX (1ULL << 56) /* no address of a program is above */
#define LOCK_TRIES (1u << 16)	 /* of 0.1 µs or less each */
#define CUT_BLOCKS_MAX (1u << 16)

static __always_inline __u64 page_up(__u64 bytes)
{
	return (bytes + PAGE_MASK) & ~PAGE_MASK;
}

/* Whether the kernel would look at it: else munmap and mremap fail and change nothing. */
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

/* False: not to be had, and counted. */
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

/* Freed before their thread entered another block; a realloc is neither here nor there. */
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
	count_removed_block(process, (struct estimate){ 1, bytes });
}

/* One block has become two. */
static __always_inline void count_split(struct process *process, const struct block *block)
{
	__u64 blocks = __sync_fetch_and_add(&process->counter[COUNTER_current_blocks], 1);
	struct traceback *traceback = bpf_map_lookup_elem(&tracebacks, &block->traceback);

	process_add_counter(process, COUNTER_allocations, 1);
	count_sampled(process, 1);
	raise_peak(process, COUNTER_peak_blocks, blocks + 1);
	if (traceback)
		__sync_fetch_and_add(&traceback->churn.allocations, 1);
}

/* Only the blocks that were born before some time, where that is asked for. */
static __always_inline bool is_spared(const struct range *range, const struct block *block)
{
	return range->born_before && block->birth_ns >= range->born_before;
}

/* 0, or there is no room for it: counted. Nothing lies there; where it does, a loss said so. */
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

/* What is left of a block goes back to the map. */
static __always_inline void range_enter_rest(struct process *process, struct range *range,
					     __u64 address, __u64 bytes)
{
	range->block.size = bytes;
	if (range_enter(process, range, address, true))
		count_removed_mapping(process, bytes);
}

/* The block at `address` has been taken out of the map, into range->block. */
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
			record_temporary(process, &range->block, (struct estimate){ 1, size });
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

/* Of the thread that runs; NULL where it has no memory. */
static __always_inline struct range *own_range(void)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	return thread ? &thread->range : NULL;
}

/* Downwards from the range's end, a block at a time, till one lies wholly below it. */
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

/* Takes a range's pages out of all blocks. The lock is held. */
static __always_inline void range_cut(struct process *process, struct range *range)
{
	range->before = range->end >> PAGE_SHIFT;
	bpf_loop(CUT_BLOCKS_MAX, cut_next, NULL, 0);
	if (!range->is_done)
		process_count_loss(process, LOSS_ranges_missed);
}

/*
 * The range is free from now on: how many blocks lost pages to it. Of blocks that another thread was
 * given since `born_before`, if that is not 0, it is known that they are not meant.
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
 * Whether munmap will fail though the range is sound: it would part a mapping of the kernel's (which are
 * larger than blocks, where neighbours are of one kind) and the process has as many as it may
 * (mm/vma.c, vms_gather_munmap_vmas()). Where that can't be looked at it counts as freed, and is said.
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

/* What lies there has been unmapped, seen or not; then the block enters. 0, or it has no room. */
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
 * Takes out the block that is a range, neither more nor less. 1, or 0: there is none. Keys of maps are
 * copies on the stack: before kernel 6.2 they may not be what a global function was given.
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

/* Whether a block lies in it. The lock is held. */
static __always_inline bool range_is_taken(__u64 image, __u64 start, __u64 end)
{
	__u64 page = starts_before(image, end >> PAGE_SHIFT);
	struct block_key key = block_key_of(page << PAGE_SHIFT, image, LAYER_MAPPING);
	struct block *below = page == NO_START ? NULL : bpf_map_lookup_elem(&blocks, &key);

	return below && key.address + below->size > start;
}

/* Puts back a block where nothing has come to lie meanwhile. 0, or -EEXIST, or it has no room. */
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
