// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <string.h>

#include "ranges.h"
#include "target.h"

/* mmap, munmap, mremap: blocks that are ranges of pages, and can be cut anywhere. */

extern volatile struct settings settings; /* see bpf_alloc.c */

ACCOUNT_TEST(ranges, mmap_records_a_block_of_the_requested_size)
{
	user_mmap(100, MAP);

	expect_mapped(MAP, 100);
	expect_same(mapping_at(MAP)->domain, DOMAIN_MAPPING, "domain");
	expect(current_bytes, 100);
	user_munmap(MAP, 1);
	expect_unmapped(MAP);
	expect(frees, 1);
	expect(freed_bytes, 100);
	expect(temporary_blocks, 1);
	expect(temporary_bytes, 100);
}

ACCOUNT_TEST(ranges, mmap_that_fails_records_nothing)
{
	user_mmap(PAGE, MAP_FAILED);
	user_mmap(PAGE, -12ULL); /* an interposer's raw system call */

	expect(allocations, 0);
	expect(failed_calls, 2);
}

ACCOUNT_TEST(ranges, of_a_heap_call_are_separate_blocks)
{
	enter(SHAPE_MALLOC, sp_at(1), 1 << 20);
	mapping_enter(SHAPE_MMAP, sp_at(10), ARGUMENTS(0, (1 << 20) + PAGE));
	mapping_leave(SHAPE_MMAP, sp_at(10), MAP);
	leave(SHAPE_MALLOC, sp_at(1), MAP + 16);

	expect_live(MAP + 16, 1 << 20);
	expect_mapped(MAP, (1 << 20) + PAGE);
	enter(SHAPE_FREE, sp_at(1), MAP + 16);
	mapping_enter(SHAPE_MUNMAP, sp_at(10), ARGUMENTS(MAP, (1 << 20) + PAGE));
	expect(allocations, 2);
	expect(frees, 2);
	expect(unknown_frees, 0);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(ranges, munmap_of_the_head_keeps_the_rest)
{
	user_mmap(3 * PAGE + 5, MAP);
	user_munmap(MAP, PAGE);

	expect_unmapped(MAP);
	expect_mapped(MAP + PAGE, 2 * PAGE + 5);
	expect(allocations, 1);
	expect(frees, 0);
	expect(freed_bytes, PAGE);
	expect(temporary_blocks, 0);
	user_munmap(MAP + 2 * PAGE, 2 * PAGE);
	expect_mapped(MAP + PAGE, PAGE);
}

ACCOUNT_TEST(ranges, are_whole_pages_of_the_kernel)
{
	settings.page_mask = 4 * PAGE - 1;
	user_mmap(PAGE + 5, MAP);
	user_munmap(MAP + PAGE, PAGE); /* amid a page: it fails */
	expect_mapped(MAP, PAGE + 5);
	user_munmap(MAP - 4 * PAGE, 4 * PAGE + 1);
	expect_unmapped(MAP);
	expect(frees, 1);
}

ACCOUNT_TEST(ranges, munmap_of_the_tail_keeps_the_rest)
{
	user_mmap(3 * PAGE + 5, MAP);
	user_munmap(MAP + 2 * PAGE, 10 * PAGE);

	expect_mapped(MAP, 2 * PAGE);
	expect(freed_bytes, PAGE + 5);
	expect(current_blocks, 1);
}

ACCOUNT_TEST(ranges, munmap_of_the_middle_leaves_two_blocks)
{
	struct block whole;

	stack_is(0x1, 0x2);
	user_mmap(4 * PAGE, MAP);
	whole = *mapping_at(MAP);
	stack_is(0x3);
	thread_run(thread_start(process, 101));
	user_munmap(MAP + PAGE, PAGE + 1);

	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 3 * PAGE, PAGE);
	cr_expect(mapping_at(MAP)->traceback == whole.traceback);
	cr_expect(mapping_at(MAP + 3 * PAGE)->birth_ns == whole.birth_ns);
	expect_same(mapping_at(MAP + 3 * PAGE)->thread, 100, "thread");
	expect(allocations, 2);
	expect(allocated_bytes, 4 * PAGE);
	expect(peak_blocks, 2);
	expect(peak_bytes, 4 * PAGE);
	expect(freed_bytes, 2 * PAGE);
	expect_same(((struct traceback *)bpf_map_lookup_elem(&tracebacks, &whole.traceback))
			    ->churn.allocations, 2, "churn");
}

ACCOUNT_TEST(ranges, munmap_of_several_ranges_frees_each_part)
{
	user_mmap(2 * PAGE, MAP);
	user_mmap(PAGE, MAP + 2 * PAGE);
	user_mmap(100, MAP + 5 * PAGE);
	user_mmap(2 * PAGE, MAP + 6 * PAGE);
	user_munmap(MAP + PAGE, 6 * PAGE);

	expect_mapped(MAP, PAGE);
	expect_unmapped(MAP + 2 * PAGE);
	expect_unmapped(MAP + 5 * PAGE);
	expect_mapped(MAP + 7 * PAGE, PAGE);
	expect(current_blocks, 2);
	expect(frees, 2);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(ranges, munmap_that_must_fail_frees_nothing)
{
	user_mmap(2 * PAGE, MAP);
	user_munmap(MAP, 0);
	user_munmap(MAP + 8, PAGE);
	user_munmap(MAP, -PAGE);
	user_munmap(1ULL << 60, PAGE);

	expect_mapped(MAP, 2 * PAGE);
	expect(unknown_frees, 0);
}

/* The kernel's mapping is larger than the block: its neighbours are of one kind. */
ACCOUNT_TEST(ranges, munmap_that_would_exceed_max_map_count_frees_nothing)
{
	vma_add((void *)MAP, 4 * PAGE);
	user_mmap(3 * PAGE, MAP);
	process->mm.map_count = 65529;
	user_munmap(MAP + PAGE, PAGE);
	expect(current_blocks, 2);
	process->mm.map_count = 65530;
	user_munmap(MAP + 2 * PAGE, PAGE);
	expect_mapped(MAP + 2 * PAGE, PAGE);
	user_munmap(MAP + PAGE, PAGE);
	expect(current_blocks, 2);
	user_munmap(MAP, PAGE);
	expect_unmapped(MAP);
	user_munmap(MAP + 2 * PAGE, 2 * PAGE);
	expect_unmapped(MAP + 2 * PAGE);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(ranges, munmap_that_may_fail_is_counted_as_a_loss)
{
	user_mmap(3 * PAGE, MAP);
	process->mm.map_count = 65530;
	fake.vma_busy = true;
	user_munmap(MAP + PAGE, PAGE);

	expect(current_blocks, 2);
	expect_loss(ranges_missed, 1);
}

ACCOUNT_TEST(ranges, munmap_of_unknown_memory_is_an_unknown_free)
{
	user_mmap(PAGE, MAP);
	user_munmap(MAP + PAGE, 100 * PAGE);
	user_munmap(MAP - 10 * PAGE, 10 * PAGE);

	expect_mapped(MAP, PAGE);
	expect(unknown_frees, 2);
	expect(frees, 0);
}

ACCOUNT_TEST(ranges, a_munmap_that_is_passed_on_counts_once)
{
	user_mmap(PAGE, MAP);
	mapping_enter(SHAPE_MUNMAP, sp_at(1), ARGUMENTS(MAP, PAGE));
	site_offset = 100;
	mapping_enter(SHAPE_MUNMAP, sp_at(5), ARGUMENTS(MAP, PAGE));
	site_offset = 0;

	expect(frees, 1);
	expect(nested_calls, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(ranges, mmap_over_other_ranges_frees_the_part_that_it_covers)
{
	user_mmap(4 * PAGE, MAP);
	user_mmap(PAGE, MAP + 4 * PAGE);
	user_mmap(3 * PAGE, MAP + 2 * PAGE);

	expect_mapped(MAP, 2 * PAGE);
	expect_mapped(MAP + 2 * PAGE, 3 * PAGE);
	expect_unmapped(MAP + 4 * PAGE);
	expect(frees, 1);
	expect(current_bytes, 5 * PAGE);
	user_mmap(7, MAP);
	expect_mapped(MAP, 7);
	expect_mapped(MAP + PAGE, PAGE);
	expect_loss(blocks_replaced, 0);
}

ACCOUNT_TEST(ranges, of_a_thread_without_state_stay_and_are_counted_as_a_loss)
{
	user_mmap(2 * PAGE, MAP);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	expect_loss(threads_dropped, 1);
	user_munmap(MAP, PAGE);

	expect_mapped(MAP, 2 * PAGE);
	expect_loss(threads_dropped, 2);
}

ACCOUNT_TEST(ranges, that_stay_locked_too_long_are_counted_as_a_loss)
{
	user_mmap(2 * PAGE, MAP);
	book_of(process)->mappings_lock = 1;
	user_munmap(MAP, 2 * PAGE);
	user_mmap(PAGE, MAP + 0x10000);
	book_of(process)->mappings_lock = 0;

	expect_mapped(MAP, 2 * PAGE);
	expect_unmapped(MAP + 0x10000);
	expect_loss(ranges_missed, 2);
}

ACCOUNT_TEST(ranges, that_have_no_room_are_counted_as_dropped)
{
	user_mmap(2 * PAGE, MAP);
	fake_map_resize(&mapping_starts, fake_map_count(&mapping_starts));
	user_mmap(PAGE, MAP + (1ULL << 30));
	expect_unmapped(MAP + (1ULL << 30));
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_mmap(PAGE, MAP + 2 * PAGE);
	expect_unmapped(MAP + 2 * PAGE);
	expect_loss(blocks_dropped, 2);
	expect_loss(drops_unnoted, 2);
	user_munmap(MAP + PAGE, 10 * PAGE);
	expect_mapped(MAP, PAGE);
	expect(current_blocks, 1);
}

#define FAR (MAP + (1ULL << 40)) /* no word covers both */

ACCOUNT_TEST(ranges, that_have_no_room_leave_no_trace)
{
	size_t starts;

	user_mmap(PAGE, MAP);
	starts = fake_map_count(&mapping_starts);
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_mmap(PAGE, FAR);

	cr_expect_eq(fake_map_count(&mapping_starts), starts);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
}

ACCOUNT_TEST(ranges, mremap_leaves_no_entry_in_the_index_of_starts)
{
	user_mmap(PAGE, MAP);
	user_mremap(MAP, PAGE, 2 * PAGE, FAR);
	user_munmap(FAR, 2 * PAGE);

	cr_expect_eq(fake_map_count(&mapping_starts), 0);
}

ACCOUNT_TEST(ranges, are_temporary_only_if_they_are_the_latest_of_their_thread)
{
	user_mmap(PAGE, MAP);
	user_mmap(PAGE, FAR);
	user_munmap(MAP, PAGE);
	expect(temporary_blocks, 0);
	user_munmap(FAR, PAGE);
	expect(temporary_blocks, 1);
}

ACCOUNT_TEST(ranges, count_a_rest_without_room_as_dropped)
{
	user_mmap(3 * PAGE, MAP);
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_munmap(MAP + PAGE, PAGE);

	expect_mapped(MAP, PAGE);
	expect_loss(blocks_dropped, 1);
	expect_loss(drops_unnoted, 1);
	expect(current_blocks, 1);
	expect(current_bytes, PAGE);
}

ACCOUNT_TEST(ranges, from_before_an_exec_are_unknown)
{
	user_mmap(3 * PAGE, MAP);
	thread_exec(main_thread);
	user_munmap(MAP, PAGE);
	user_mmap(PAGE, MAP + PAGE);

	expect_mapped(MAP + PAGE, PAGE);
	expect(unknown_frees, 1);
	expect(frees, 0);
}

ACCOUNT_TEST(ranges, that_came_with_a_fork_count_as_inherited)
{
	struct target_thread *child;

	book_of(process)->follows = 1;
	user_mmap(3 * PAGE, MAP);
	child = thread_fork(200);
	thread_run(child);
	user_munmap(MAP, 3 * PAGE);

	expect_mapped(MAP, 3 * PAGE);
	expect_in(child->process, inherited_frees, 1);
}

ACCOUNT_TEST(ranges, leave_no_entry_in_the_index_of_starts)
{
	for (int i = 0; i < 48; i++)
		user_mmap(PAGE, PAGE << i);
	cr_expect(fake_map_count(&mapping_starts) > 8);
	user_munmap(PAGE, (1ULL << 56) - PAGE);

	expect(current_blocks, 4); /* at 2^56 and above there are no programs */
	expect(frees, 44);
}

/*
 * mmap, munmap and mremap at random, compared with a page table that has the owner of each page. Blocks with one
 * number are the rest of one call; a run of pages with one number is one block.
 */

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

ACCOUNT_TEST(ranges_random, match_the_model_within_few_index_words)
{
	run_at_random(1, 0x7f0000001000);
}

ACCOUNT_TEST(ranges_random, match_the_model_across_the_edge_of_all_index_levels)
{
	run_at_random(2, (1ULL << 48) - 100 * PAGE);
}

/* mremap: a realloc of pages. */

#define MAY_MOVE 1 /* MREMAP_MAYMOVE */
#define KEEP_OLD 4 /* MREMAP_DONTUNMAP */

ACCOUNT_TEST(ranges, mremap_in_place_is_a_free_and_an_allocation)
{
	user_mmap(PAGE, MAP);
	user_mremap(MAP, PAGE, 3 * PAGE, MAP);
	expect_mapped(MAP, 3 * PAGE);
	user_mremap(MAP, 3 * PAGE, 2 * PAGE, MAP);

	expect_mapped(MAP, 2 * PAGE);
	expect(allocations, 3);
	expect(frees, 2);
	expect(current_bytes, 2 * PAGE);
	expect(temporary_blocks, 0);
}

ACCOUNT_TEST(ranges, mremap_that_moves_removes_the_old_range_when_it_begins)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	expect(current_bytes, 2 * PAGE);
	thread_run(other);
	user_mmap(3 * PAGE, MAP - PAGE);
	thread_run(main_thread);
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x100000);

	expect_mapped(MAP - PAGE, 3 * PAGE);
	expect_mapped(MAP + 0x100000, 8 * PAGE);
	expect(frees, 1);
	expect(freed_bytes, 2 * PAGE);
}

ACCOUNT_TEST(ranges, mremap_that_fails_keeps_the_old_range_unchanged)
{
	struct block before;

	user_mmap(PAGE + 1, MAP);
	before = *mapping_at(MAP);
	user_mremap(MAP, 2 * PAGE, 1ULL << 50, MAP_FAILED);
	user_mremap(MAP, 2 * PAGE, 0, MAP_FAILED);
	user_mremap(MAP + 8, 2 * PAGE, 5 * PAGE, MAP_FAILED);

	cr_expect(mapping_at(MAP) && !memcmp(mapping_at(MAP), &before, sizeof(before)));
	expect(failed_calls, 3);
	expect(allocations, 1);
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
}

ACCOUNT_TEST(ranges, mremap_may_keep_the_old_range)
{
	user_mmap(PAGE, MAP);
	user_mremap(MAP, 0, PAGE, MAP + 0x10000);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, PAGE, PAGE, KEEP_OLD | MAY_MOVE));
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x20000);

	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 0x10000, PAGE);
	expect_mapped(MAP + 0x20000, PAGE);
	expect(frees, 0);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(ranges, mremap_of_a_part_leaves_the_rest)
{
	user_mmap(4 * PAGE, MAP);
	user_mremap(MAP + PAGE, 2 * PAGE, 5 * PAGE, MAP + 0x10000);

	expect_mapped(MAP, PAGE);
	expect_mapped(MAP + 3 * PAGE, PAGE);
	expect_mapped(MAP + 0x10000, 5 * PAGE);
	expect(current_bytes, 7 * PAGE);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(ranges, mremap_of_several_ranges_keeps_a_range_mapped_there_meanwhile)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(PAGE, MAP);
	user_mmap(PAGE, MAP + PAGE);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 3 * PAGE));
	thread_run(other);
	user_mmap(100, MAP);
	thread_run(main_thread);
	mapping_leave(SHAPE_MREMAP, sp_at(1), MAP + 0x10000);

	expect_mapped(MAP, 100);
	expect_unmapped(MAP + PAGE);
	expect_mapped(MAP + 0x10000, 3 * PAGE);
}

ACCOUNT_TEST(ranges, mremap_that_never_returns_frees_the_old_range)
{
	user_mmap(PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, PAGE, 3 * PAGE));
	stack_is(0x403000); /* another call */
	user_mmap(PAGE, MAP + 0x10000);
	expect_unmapped(MAP);
	expect(frees, 1);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP + 0x20000, PAGE, 3 * PAGE));
	stack_is(0x404000);
	user_mmap(PAGE, MAP + 0x30000);

	expect(frees, 1);
	expect_loss(calls_unreturned, 2);
	expect_loss(ranges_missed, 1);
}

ACCOUNT_TEST(ranges, mremap_of_unknown_memory_is_an_unknown_free)
{
	user_mremap(MAP, PAGE, 2 * PAGE, MAP);

	expect_mapped(MAP, 2 * PAGE);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(ranges, mremap_over_other_ranges_frees_the_part_that_it_covers)
{
	user_mmap(PAGE, MAP);
	user_mmap(4 * PAGE, MAP + 0x10000);
	user_mremap(MAP, PAGE, 2 * PAGE, MAP + 0x11000);

	expect_mapped(MAP + 0x10000, PAGE);
	expect_mapped(MAP + 0x11000, 2 * PAGE);
	expect_mapped(MAP + 0x13000, PAGE);
	expect(current_blocks, 3);
}

ACCOUNT_TEST(ranges, a_thread_killed_in_mremap_keeps_the_old_range)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	thread_exit(main_thread, 9);

	expect_mapped(MAP, 2 * PAGE);
	expect_loss(calls_unreturned, 1);
	thread_run(other);
	user_munmap(MAP + PAGE, PAGE);
	expect_mapped(MAP, PAGE);
}

ACCOUNT_TEST(ranges, a_thread_killed_in_mremap_does_not_restore_a_range_that_is_mapped_again)
{
	struct target_thread *other = thread_start(process, 101);

	user_mmap(2 * PAGE, MAP);
	mapping_enter(SHAPE_MREMAP, sp_at(1), ARGUMENTS(MAP, 2 * PAGE, 8 * PAGE));
	thread_run(other);
	user_mmap(PAGE, MAP + PAGE);
	thread_exit(main_thread, 9);

	expect_unmapped(MAP);
	expect_mapped(MAP + PAGE, PAGE);
	expect_loss(calls_unreturned, 1);
}
