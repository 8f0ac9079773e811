// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The nursery (bpf/account/nursery.bpf.h): the accounting is the same wherever a young block lies or moves to. */
#include "cut_orders.h"
#include <bpf/bpf_helpers.h>

extern __u64 epoch, cut;

static struct block_key heap_key(__u64 address)
{
	return block_key_of(address, book_of(process)->image, LAYER_HEAP);
}

/* Addresses that share the first of two places. */
static __u64 at(int nr)
{
	__u64 address = 0;

	while (nr) {
		struct block_key key = heap_key(address += 0x1000);

		nr -= !nursery_slot(&key, 1);
	}
	return address;
}

static bool is_young(__u64 address)
{
	struct block_key key = heap_key(address);

	return block_young(&key);
}

static bool is_mapped(__u64 address)
{
	struct block_key key = heap_key(address);

	return block_mapped(&key);
}

static struct nursery_place *the_place(void)
{
	__u32 first = 0;

	return bpf_map_lookup_elem(&nursery, &first);
}

ACCOUNT_TEST(nursery, holds_a_new_block_until_the_next_block_comes)
{
	nursery_use(2);
	user_malloc(8, at(1));
	cr_expect(is_young(at(1)) && !is_mapped(at(1)));
	user_malloc(16, at(2));
	cr_expect(!is_young(at(1)) && is_mapped(at(1)));
	cr_expect(is_young(at(2)) && !is_mapped(at(2)));
	expect_live(at(1), 8);
	expect(current_bytes, 24);
}

ACCOUNT_TEST(nursery, frees_find_their_block_in_the_nursery_and_in_the_map)
{
	nursery_use(2);
	user_malloc(8, at(1));
	user_malloc(16, at(2));
	user_free(at(1));
	user_free(at(2));
	expect(frees, 2);
	expect(unknown_frees, 0);
	cr_expect_eq(block_cnt(), 0);
	user_free(at(2));
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(nursery, block_stays_unchanged_when_it_moves_to_the_map)
{
	struct block before;

	nursery_use(2);
	user_malloc(8, at(1));
	before = *block_at(at(1));
	user_malloc(16, at(2));
	cr_expect(!memcmp(&before, block_at(at(1)), sizeof(before)));
}

ACCOUNT_TEST(nursery, realloc_finds_its_block_in_the_nursery_and_in_the_map)
{
	nursery_use(2);
	user_malloc(8, at(1));
	user_realloc(at(1), 16, at(2)); /* young */
	user_malloc(32, at(3));
	user_realloc(at(2), 64, at(4)); /* mapped */
	user_realloc(at(4), 128, 0); /* fails */
	expect_gone(at(1));
	expect_gone(at(2));
	expect_live(at(3), 32);
	expect_live(at(4), 64);
	expect(allocations, 4);
	expect(frees, 2);
}

ACCOUNT_TEST(nursery, address_that_is_allocated_again_replaces_a_block_in_the_nursery)
{
	nursery_use(2);
	user_malloc(8, at(1));
	user_malloc(16, at(1));
	expect_live(at(1), 16);
	expect_loss(blocks_replaced, 1);
}

ACCOUNT_TEST(nursery, address_that_is_allocated_again_replaces_a_block_that_moved_to_the_map)
{
	nursery_use(2);
	user_malloc(8, at(1));
	user_malloc(16, at(2));
	user_malloc(32, at(1));
	expect_live(at(1), 32);
	cr_expect(is_young(at(1)) && !is_mapped(at(1)));
	expect_loss(blocks_replaced, 1);
}

ACCOUNT_TEST(nursery, keeps_its_block_and_drops_the_new_block_when_the_map_is_full)
{
	nursery_use(2);
	fake_map_resize(&blocks, 1);
	user_malloc(8, at(1));
	user_malloc(16, at(2));
	user_malloc(32, at(3));
	expect_live(at(1), 8);
	expect_live(at(2), 16);
	expect_gone(at(3));
	expect(dropped_bytes, 32);
	expect_loss(blocks_dropped, 1);
	user_free(at(3));
	expect(dropped_frees, 1);
	user_free(at(2));
	user_malloc(64, at(4)); /* there is room again */
	expect_live(at(4), 64);
}

ACCOUNT_TEST(nursery, is_shared_by_processes)
{
	struct target_process *other = process_start(200);
	struct target_thread *thread = thread_start(other, 200);

	nursery_use(2);
	process_admit(other);
	user_malloc(8, at(1));
	thread_run(thread);
	user_malloc(16, at(1));
	cr_expect_eq(block_of(other, at(1))->size, 16);
	expect_live(at(1), 8);
	user_free(at(1));
	cr_expect(!block_of(other, at(1)));
	expect_live(at(1), 8);
	thread_run(main_thread);
	user_free(at(1));
	expect(frees, 1);
	expect_in(other, frees, 1);
}

ACCOUNT_TEST(nursery, holds_no_mappings)
{
	nursery_use(2);
	user_mmap(0x1000, 0x10000);
	cr_expect(block_in(process, LAYER_MAPPING, 0x10000));
	cr_expect_eq(NURSERY_IS(the_place()->state), NURSERY_EMPTY);
	user_munmap(0x10000, 0x1000);
	expect(frees, 1);
}

ACCOUNT_TEST(nursery, keeps_its_block_when_a_killed_realloc_had_the_same_address)
{
	struct target_thread *other = thread_start(process, 101);

	nursery_use(2);
	user_malloc(8, at(1));
	thread_run(other);
	enter(SHAPE_REALLOC, sp_at(1), at(1), 16);
	thread_run(main_thread);
	user_malloc(32, at(1));
	thread_exit(other, 9);
	thread_run(main_thread);
	expect_live(at(1), 32);
	expect(frees, 1);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(nursery, keeps_its_block_when_a_dropped_block_had_the_same_address)
{
	nursery_use(2);
	fake_map_resize(&blocks, 1);
	user_malloc(8, at(1));
	user_malloc(16, at(2));
	user_malloc(32, at(3)); /* dropped */
	enter(SHAPE_REALLOC, sp_at(5), at(3), 64);
	thread_run(thread_start(process, 101));
	user_free(at(1));
	user_malloc(128, at(3));
	cr_expect(is_young(at(3)));
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(5), 0);
	expect_live(at(3), 128);
	expect(dropped_blocks, 0);
	expect(dropped_frees, 1);
	expect_loss(blocks_dropped, 1);
}

ACCOUNT_TEST(nursery, place_that_is_busy_is_not_changed)
{
	nursery_use(2);
	the_place()->state = NURSERY_BUSY;
	user_malloc(8, at(1));
	cr_expect(is_mapped(at(1)));
	user_free(at(1));
	expect(frees, 1);
	expect_loss(blocks_unsettled, 0);
	user_free(at(2)); /* could have been moving */
	expect(unknown_frees, 1);
	expect_loss(blocks_unsettled, 1);
	the_place()->state = NURSERY_EMPTY;
}

ACCOUNT_TEST(nursery, keeps_its_block_when_the_block_cannot_be_handed_over)
{
	nursery_use(2);
	fake_map_resize(&handed_blocks, 1);
	user_malloc(8, at(1));
	user_malloc(16, at(2));
	cut = epoch++;
	user_free(at(1)); /* takes the only free room */
	user_malloc(32, at(3));
	cr_expect(is_young(at(2)) && is_mapped(at(3)));
	expect_loss(blocks_not_handed, 0);
	cut = 0;
}

/* ---- while a snapshot is taken ---- */

static void free_and_again(void)
{
	user_free(0x1000);
	now_live(2);
	user_malloc(4, 0x1000);
	now_live(2 | 4);
}

ACCOUNT_TEST(nursery, cut_is_consistent_while_blocks_move)
{
	cut_nursery = 2;
	run_all_orders(free_and_again, NULL, 1000);
}

static void one_more(void)
{
	user_malloc(4, 0x3000);
	now_live(1 | 2 | 4);
}

static void free_the_other(void)
{
	enter(SHAPE_FREE, sp_at(1), 0x2000);
}

ACCOUNT_TEST(nursery, cut_is_consistent_while_another_thread_frees_a_block_that_moves)
{
	static const struct intrusion intrusion = { free_the_other, .removes = 2 };

	cut_nursery = 2;
	run_all_orders(one_more, &intrusion, 1000);
}

static void realloc_that_moves(void)
{
	user_realloc(0x1000, 4, 0x3000);
	now_live(2 | 4);
}

ACCOUNT_TEST(nursery, cut_is_consistent_while_a_realloc_removes_a_block_from_the_nursery)
{
	cut_nursery = 2;
	run_all_orders(realloc_that_moves, NULL, 1000);
}

ACCOUNT_TEST(nursery, cut_is_wrong_when_a_place_is_not_read)
{
	cut_nursery = 2;
	for (int place = 0; place < PLACES; place++) {
		left_out = STEP_READ_YOUNG + place;
		cr_expect(finds_wrong_order(one_more), "place %d is not read", place);
	}
}
