// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Looking into the maps, and what must always hold of them. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <math.h>
#include <string.h>

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

	return block_young(&key) ?: block_mapped(&key);
}

struct block *block_mapped(const struct block_key *key)
{
	return bpf_map_lookup_elem(&blocks, key);
}

extern volatile struct settings settings; /* see bpf_alloc.c */

static struct nursery_place *place_nr(__u32 nr)
{
	return settings.nursery_mask ? bpf_map_lookup_elem(&nursery, &nr) : NULL;
}

static struct nursery_place *place_of(const struct block_key *key)
{
	return block_key_layer(key) == LAYER_MAPPING ?
		       NULL : place_nr(nursery_slot(key, settings.nursery_mask));
}

/* A copy, as a place has only a part of a block; it stays until some more have been looked at. */
static struct block *copy_of_young(const struct nursery_place *place)
{
	static struct block copies[16];
	static unsigned int nr;
	struct block *copy = &copies[nr++ % 16];

	*copy = nursery_block(place);
	return copy;
}

struct block *block_young(const struct block_key *key)
{
	struct nursery_place *place = place_of(key);

	return place && NURSERY_IS(place->state) == NURSERY_FULL &&
			       !memcmp(&place->key, key, sizeof(*key)) ? copy_of_young(place) : NULL;
}

bool block_walk(struct block_walk *walk)
{
	const struct nursery_place *place;

	while (settings.nursery_mask && walk->place <= settings.nursery_mask) {
		place = place_nr(walk->place++);
		if (NURSERY_IS(place->state) != NURSERY_FULL)
			continue;
		walk->key = place->key;
		walk->block = copy_of_young(place);
		return true;
	}
	if (!fake_map_walk(&blocks, &walk->map))
		return false;
	walk->key = *(const struct block_key *)walk->map.key;
	walk->block = walk->map.value;
	return true;
}

static __u64 count_notes(const struct process *book)
{
	struct fake_walk walk = {};
	__u64 nr = 0;

	while (fake_map_walk(&dropped_blocks, &walk))
		nr += block_key_image(walk.key) == book->image;
	return nr;
}

bool account_add_up(const struct process *book)
{
	const __u64 *counter = book->counter;
	struct block_walk walk = {};
	__u64 nr = 0, bytes = 0;

	while (block_walk(&walk)) {
		if (block_key_image(&walk.key) != book->image)
			continue;
		nr++;
		bytes += walk.block->size;
	}
	return counter[COUNTER_current_blocks] == nr && counter[COUNTER_current_bytes] == bytes &&
	       counter[COUNTER_allocations] - counter[COUNTER_frees] == nr &&
	       counter[COUNTER_allocated_bytes] - counter[COUNTER_freed_bytes] == bytes &&
	       counter[COUNTER_peak_blocks] >= nr && counter[COUNTER_peak_bytes] >= bytes &&
	       counter[COUNTER_peak_blocks] <= counter[COUNTER_allocations] &&
	       counter[COUNTER_peak_bytes] <= counter[COUNTER_allocated_bytes] &&
	       counter[COUNTER_dropped_blocks] == count_notes(book) &&
	       book->loss[LOSS_blocks_dropped] == counter[COUNTER_dropped_blocks] +
			       counter[COUNTER_dropped_frees] + book->loss[LOSS_drops_unnoted];
}

__u32 block_cnt(void)
{
	struct block_walk walk = {};
	__u32 nr = 0;

	while (block_walk(&walk))
		nr++;
	return nr;
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
	__u64 told_cnt; /* the blocks whose weight the process reported */
	double weight, weighted_bytes;
};

static void sum_add(struct sum *sum, __u64 size, double weight)
{
	sum->block_cnt++;
	sum->bytes += size;
	sum->weight += weight;
	sum->weighted_bytes += weight * size;
}

static void sum_mapped(struct sum *sum, __u64 image)
{
	struct block_walk walk = {};

	while (block_walk(&walk)) {
		const struct block_key *key = &walk.key;
		const struct block *block = walk.block;

		if (block_key_image(key) != image)
			continue;
		sum_add(sum, block->size, block_weight(key, block));
		sum->told_cnt += block->weight != 0;
		cr_expect(key->address, "a block at NULL");
		cr_expect(!block->traceback || bpf_map_lookup_elem(&tracebacks, &block->traceback),
			  "the traceback of %#llx is not in the map", key->address);
	}
}

static void sum_in_call(struct sum *live, struct sum *dropped, const struct call *call)
{
	struct sum *sum = call->has_old ? live : dropped;
	struct block_key key = block_key_of(call->pointer, call->image, call->layer);

	if (!call->sp || !(call->has_old || call->has_dropped))
		return;
	sum_add(sum, call->old.size, block_weight(&key, &call->old));
}

static void sum_dropped(struct sum *sum, __u64 image)
{
	struct fake_walk walk = {};

	while (fake_map_walk(&dropped_blocks, &walk)) {
		if (block_key_image(walk.key) != image)
			continue;
		sum_add(sum, *(const __u64 *)walk.value, 1);
	}
}

/* The old block of a realloc that is under way is live, but in no map. */
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

bool all_losses_are_expected;

static void losses_check(const struct process *book, const struct target_process *target)
{
	for (int i = 0; i < LOSS_NR; i++)
		cr_expect(all_losses_are_expected || target->loss_expected[i] || !book->loss[i],
			  "%s of %d is %llu, which the test did not expect", loss_name[i],
			  target->pid, book->loss[i]);
}

/* Each weight is rounded. */
static void expect_near(__u64 got, double wanted, __u64 block_cnt, const char *what)
{
	cr_expect(fabs((double)got - wanted) <= block_cnt + wanted * 1e-5, "%s is %llu, not %f", what, got,
		  wanted);
}

static void live_check(const __u64 *counter, const struct sum *live)
{
	__u64 current_blocks = counter[COUNTER_current_blocks];
	__u64 current_bytes = counter[COUNTER_current_bytes];

	expect_same(counter[COUNTER_allocations] - counter[COUNTER_frees], current_blocks,
		    "allocations - frees");
	expect_same(counter[COUNTER_allocated_bytes] - counter[COUNTER_freed_bytes], current_bytes,
		    "allocated_bytes - freed_bytes");
	cr_expect(counter[COUNTER_peak_bytes] >= current_bytes, "the peak is below what is live");
	if (chosen_blocks.sample_bytes || chosen_blocks.has_budget || live->told_cnt) {
		expect_same(counter[COUNTER_sampled_blocks],
			    chosen_blocks.sample_bytes || chosen_blocks.has_budget ? live->block_cnt : live->told_cnt,
			    "sampled_blocks");
		expect_near(current_blocks, live->weight, live->block_cnt, "current_blocks");
		expect_near(current_bytes, live->weighted_bytes, live->block_cnt, "current_bytes");
	} else {
		expect_same(current_blocks, live->block_cnt, "current_blocks");
		expect_same(current_bytes, live->bytes, "current_bytes");
	}
}

static bool is_choosing(void)
{
	return chosen_blocks.sample_bytes || chosen_blocks.has_budget || chosen_blocks.min_size ||
	       chosen_blocks.max_size;
}

static __u64 *free_filter_of(const struct block_key *key)
{
	__u32 slot = free_filter_slot(key->address, block_key_layer(key), fake_map_capacity(&free_filter) - 1);

	return is_choosing() && block_key_layer(key) != LAYER_MAPPING ?
		       bpf_map_lookup_elem(&free_filter, &slot) : NULL;
}

static void count_out(const struct block_key *key)
{
	__u64 *counter = free_filter_of(key);

	if (counter)
		--*counter;
}

void block_forget(const struct block_key *key)
{
	struct nursery_place *place = place_of(key);

	if (block_young(key))
		place->state = NURSERY_STATE(place->state + NURSERY_CHANGE, NURSERY_EMPTY);
	if (bpf_map_delete_elem(&blocks, key))
		return;
	count_out(key);
	if (place)
		place->mapped--;
}

void note_forget(const struct block_key *key)
{
	if (!bpf_map_delete_elem(&dropped_blocks, key))
		count_out(key);
}

/* All that is in the maps is counted there, and nothing else. */
static void free_filter_check(void)
{
	const void *const map[] = { &blocks, &dropped_blocks };
	__u64 wanted = 0, got = 0;
	struct fake_walk walk;

	for (int i = 0; i < 2; i++) {
		walk = (struct fake_walk){};
		while (fake_map_walk(map[i], &walk)) {
			__u64 *counter = free_filter_of(walk.key);

			cr_expect(!counter || *counter, "a block is not counted in free_filter");
			wanted += !!counter;
		}
	}
	walk = (struct fake_walk){};
	while (fake_map_walk(&free_filter, &walk))
		got += *(const __u64 *)walk.value;
	expect_same(got, wanted, "the sum of free_filter");
}

/* A place's `mapped` counts the blocks of that place that are in the map; a block is never in both. */
static void nursery_check(void)
{
	struct fake_walk walk = {};
	__u64 wanted = 0, got = 0;

	while (fake_map_walk(&blocks, &walk)) {
		wanted += !!place_of(walk.key);
		cr_expect(!block_young(walk.key), "a block is in the nursery and in the map");
	}
	for (__u32 i = 0; settings.nursery_mask && i <= settings.nursery_mask; i++) {
		got += place_nr(i)->mapped;
		cr_expect(NURSERY_IS(place_nr(i)->state) != NURSERY_BUSY, "a place is still busy");
	}
	expect_same(got, wanted, "the sum of what the nursery knows to be in the map");
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
	live_check(book->counter, &live);
	losses_check(book, process_by_pid(tgid));
}

void account_check(void)
{
	struct fake_walk walk = {};

	free_filter_check();
	nursery_check();
	while (fake_map_walk(&process_slots, &walk))
		book_check(process_book(*(const __u32 *)walk.key), *(const __u32 *)walk.key);
}
