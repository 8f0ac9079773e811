// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * mmap, munmap and mremap at random, compared with a page table that has the owner of each page. Blocks with one
 * number are the rest of one call; a run of pages with one number is one block.
 */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <string.h>

#define PAGES 200
#define PAGE 4096ULL
#define STEPS 20000

static __u64 base;
static __u64 random_state;

static struct {
	__u32 call[PAGES + 1]; /* 0: not mapped */
	__u32 calls;
	__u64 last_bytes[STEPS * 2]; /* of each call: how many of its last page were asked for */
	__u32 last_page[STEPS * 2];  /* and which it is */
	__u64 frees, unknown, failed;
} model;

static __u32 below(__u32 n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 20) % n;
}

static __u64 address_of(__u32 page)
{
	return base + page * PAGE;
}

static bool model_has(__u32 first, __u32 nr)
{
	for (__u32 i = first; i < first + nr; i++)
		if (model.call[i])
			return true;
	return false;
}

static __u64 bytes_of(__u32 page)
{
	__u32 call = model.call[page];

	return !call ? 0 : page == model.last_page[call] ? model.last_bytes[call] : PAGE;
}

static void model_map(__u32 first, __u32 nr, __u64 bytes)
{
	__u32 call = ++model.calls;

	for (__u32 i = first; i < first + nr; i++)
		model.call[i] = call;
	model.last_page[call] = first + nr - 1;
	model.last_bytes[call] = bytes - (nr - 1) * PAGE;
}

static void model_unmap(__u32 first, __u32 nr)
{
	for (__u32 i = first; i < first + nr; i++)
		model.call[i] = 0;
}

static void step(void)
{
	__u32 nr = 1 + below(12), first = below(PAGES - nr + 1), dice = below(100);
	__u32 to_nr = 1 + below(12), to = below(PAGES - to_nr + 1);
	__u64 bytes = nr * PAGE - below(PAGE), to_bytes = to_nr * PAGE - below(PAGE);

	if (dice < 35) {
		user_mmap(bytes, address_of(first));
		model_map(first, nr, bytes);
	} else if (dice < 75) {
		model.unknown += !model_has(first, nr);
		user_munmap(address_of(first), bytes);
		model_unmap(first, nr);
	} else if (dice < 85) {
		user_mremap(address_of(first), bytes, to_bytes, MAP_FAILED);
		model.failed++;
	} else {
		model.unknown += !model_has(first, nr);
		user_mremap(address_of(first), bytes, to_bytes, address_of(to));
		model_unmap(first, nr);
		model_map(to, to_nr, to_bytes);
	}
}

/* Every run of pages of one call is a block, and there are no others. */
static void compare(void)
{
	__u64 blocks_nr = 0, bytes = 0;

	for (__u32 i = 0; i < PAGES; i++) {
		const struct block *block = block_in(process, LAYER_MAPPING, address_of(i));
		bool begins = model.call[i] && (!i || model.call[i] != model.call[i - 1]);
		__u64 size = 0;

		cr_assert(begins == !!block, "page %u %s", i, block ? "begins" : "does not begin");
		if (!begins)
			continue;
		for (__u32 j = i; j < PAGES && model.call[j] == model.call[i]; j++)
			size += bytes_of(j);
		cr_assert(block->size == size, "page %u has %llu, not %llu", i, block->size, size);
		blocks_nr++;
		bytes += size;
	}
	expect(current_blocks, blocks_nr);
	expect(current_bytes, bytes);
	expect(unknown_frees, model.unknown);
	expect(failed_calls, model.failed);
}

static void run_at_random(__u64 seed, __u64 at)
{
	random_state = seed * 0x9e3779b97f4a7c15ULL;
	base = at;
	for (int i = 0; i < STEPS; i++) {
		step();
		compare();
	}
	user_munmap(base, PAGES * PAGE);
	expect(current_blocks, 0);
	expect_same(fake_map_count(&mapping_starts), 0, "words of the tree");
}

BOOK_TEST(ranges_random, match_the_model_within_few_index_words)
{
	run_at_random(1, 0x7f0000001000);
}

BOOK_TEST(ranges_random, match_the_model_across_the_edge_of_all_index_levels)
{
	run_at_random(2, (1ULL << 48) - 100 * PAGE);
}
