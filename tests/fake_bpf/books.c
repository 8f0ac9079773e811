// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Looking into the maps, and what must always hold of them. */
#include "target.h"
#include <bpf/bpf_helpers.h>

static struct process *process_book(__u32 tgid)
{
	__u32 *slot = bpf_map_lookup_elem(&process_slots, &tgid);

	return slot ? bpf_map_lookup_elem(&processes, slot) : NULL;
}

struct process *book_of(const struct target_process *target)
{
	__u32 tgid = target->pid;

	return process_book(tgid);
}

struct block *block_of(const struct target_process *target, __u64 address)
{
	return block_in(target, LAYER_HEAP, address);
}

struct block *block_in(const struct target_process *target, enum layer layer, __u64 address)
{
	struct block_key key = block_key_of(address, book_of(target)->image, layer);

	return bpf_map_lookup_elem(&blocks, &key);
}

struct block *block_at(__u64 address)
{
	return block_of(process, address);
}

struct traceback *traceback_at(__u64 address)
{
	struct block *block = block_at(address);
	__u64 hash = block ? block->traceback : 0;

	return hash ? bpf_map_lookup_elem(&tracebacks, &hash) : NULL;
}

__u64 loss_of(struct target_process *target, enum loss loss)
{
	target->loss_expected[loss] = true;
	return book_of(target)->loss[loss];
}

struct sum {
	__u64 block_cnt, bytes;
};

static void sum_mapped(struct sum *sum, __u64 image)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&blocks, &walk)) {
		const struct block_key *key = walk.key;
		struct block *block = walk.value;

		if (block_key_image(key) != image)
			continue;
		sum->block_cnt++;
		sum->bytes += block->size;
		cr_expect(key->address, "a block at NULL");
		cr_expect(!block->traceback || bpf_map_lookup_elem(&tracebacks, &block->traceback),
			  "the traceback of %#llx is not in the map", key->address);
	}
}

static void sum_in_call(struct sum *live, struct sum *dropped, const struct call *call)
{
	struct sum *sum = call->has_old ? live : dropped;

	if (!call->sp || !(call->has_old || call->has_dropped))
		return;
	sum->block_cnt++;
	sum->bytes += call->old.size;
}

static void sum_dropped(struct sum *sum, __u64 image)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&dropped_blocks, &walk)) {
		if (block_key_image(walk.key) != image)
			continue;
		sum->block_cnt++;
		sum->bytes += *(const __u64 *)walk.value;
	}
}

/* The old blocks of reallocs that are under way are live but not in the maps. */
static void sum_in_realloc(struct sum *live, struct sum *dropped, pid_t tgid)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&threads, &walk)) {
		struct task_struct *task = *(struct task_struct *const *)walk.key;
		const struct thread *thread = walk.value;

		for (int i = 0; i < LAYER_NR && task->tgid == tgid; i++)
			sum_in_call(live, dropped, &thread->layer[i].call);
	}
}

static const char *const loss_name[LOSS_NR] = {
#define X(name, meaning) #name,
	ALLOCSNAP_LOSSES(X)
#undef X
};

static void losses_check(const struct process *book, const struct target_process *target)
{
	for (int i = 0; i < LOSS_NR; i++)
		cr_expect(target->loss_expected[i] || !book->loss[i],
			  "%s of %d is %llu, which the test did not expect", loss_name[i],
			  target->pid, book->loss[i]);
}

static void book_check(const struct process *book, __u32 tgid)
{
	struct sum live = {}, dropped = {};

	sum_mapped(&live, book->image);
	sum_dropped(&dropped, book->image);
	sum_in_realloc(&live, &dropped, tgid);
	expect_same(book->counter[COUNTER_dropped_blocks], dropped.block_cnt, "dropped_blocks");
	expect_same(book->counter[COUNTER_dropped_bytes], dropped.bytes, "dropped_bytes");
	expect_same(book->loss[LOSS_blocks_dropped] - book->counter[COUNTER_dropped_frees] -
		    book->loss[LOSS_drops_unnoted], dropped.block_cnt,
		    "blocks_dropped - dropped_frees - drops_unnoted");
	expect_same(book->counter[COUNTER_current_blocks], live.block_cnt, "current_blocks");
	expect_same(book->counter[COUNTER_current_bytes], live.bytes, "current_bytes");
	expect_same(book->counter[COUNTER_allocations] - book->counter[COUNTER_frees],
		    live.block_cnt, "allocations - frees");
	expect_same(book->counter[COUNTER_allocated_bytes] - book->counter[COUNTER_freed_bytes],
		    live.bytes, "allocated_bytes - freed_bytes");
	cr_expect(book->counter[COUNTER_peak_bytes] >= live.bytes, "the peak is below what is live");
	losses_check(book, process_by_pid(tgid));
}

void books_check(void)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&process_slots, &walk))
		book_check(process_book(*(const __u32 *)walk.key), *(const __u32 *)walk.key);
}
