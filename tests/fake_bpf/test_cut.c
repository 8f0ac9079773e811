// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause


#include "cut_orders.h"

/* Heap calls that run while a snapshot is taken. */

static void free_and_again(void)
{
	user_free(0x1000);
	now_live(2);
	user_malloc(4, 0x1000);
	now_live(2 | 4);
}

ACCOUNT_TEST(cut, is_consistent_when_an_address_is_allocated_again)
{
	run_all_orders(free_and_again, NULL, 1000);
}

static void realloc_that_moves(void)
{
	user_realloc(0x1000, 4, 0x3000);
	now_live(2 | 4);
}

ACCOUNT_TEST(cut, is_consistent_when_a_realloc_moves_its_block)
{
	run_all_orders(realloc_that_moves, NULL, 1000);
}

static void realloc_in_place(void)
{
	user_realloc(0x1000, 4, 0x1000);
	now_live(2 | 4);
}

ACCOUNT_TEST(cut, is_consistent_when_a_realloc_stays_in_place)
{
	run_all_orders(realloc_in_place, NULL, 1000);
}

static void realloc_that_fails(void)
{
	user_realloc(0x1000, 4, 0);
	now_live(1 | 2);
}

ACCOUNT_TEST(cut, is_consistent_when_a_realloc_fails)
{
	run_all_orders(realloc_that_fails, NULL, 1000);
}

static void realloc_to_nothing(void)
{
	user_realloc(0x1000, 0, 0);
	now_live(2);
}

ACCOUNT_TEST(cut, is_consistent_when_a_realloc_to_0_bytes_frees)
{
	run_all_orders(realloc_to_nothing, NULL, 1000);
}

static void free_the_other(void)
{
	enter(SHAPE_FREE, sp_at(1), 0x2000);
}

ACCOUNT_TEST(cut, is_consistent_when_another_thread_frees)
{
	static const struct intrusion intrusion = { free_the_other, .removes = 2 };

	run_all_orders(realloc_that_moves, &intrusion, 100000);
}

static void realloc_whose_address_is_taken(void)
{
	enter(SHAPE_REALLOC, sp_at(5), 0x1000, 4);
	thread_run(other_thread);
	user_malloc(8, 0x1000);
	now_live(1 | 2 | 8); /* the realloc is not over */
	user_free(0x1000);
	now_live(1 | 2);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(5), 0x3000);
	now_live(2 | 4);
}

ACCOUNT_TEST(cut, is_consistent_when_the_address_of_a_realloc_is_reused)
{
	run_all_orders(realloc_whose_address_is_taken, NULL, 100000);
}

static void realloc_that_is_killed(void)
{
	process->signal.live.counter++; /* it is the same thread each time */
	thread_run(other_thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 4);
	note_program(true);
	thread_exit(other_thread, 9);
	note_program(false);
	now_live(1 | 2);
	thread_run(main_thread);
}

ACCOUNT_TEST(cut, is_consistent_when_a_thread_is_killed_during_realloc)
{
	run_all_orders(realloc_that_is_killed, NULL, 1000);
	process->signal.live.counter++;
	cr_expect(loss_of(process, LOSS_calls_unreturned) > 0);
}

/* Without this step of the loader some orders must go wrong. */
static void expect_needed(enum step step, void (*script)(void))
{
	left_out = step;
	cr_expect(finds_wrong_order(script), "step %d is not needed", step);
}

ACCOUNT_TEST(cut, is_wrong_when_the_loader_does_not_wait)
{
	expect_needed(STEP_WAIT, realloc_that_moves);
}

ACCOUNT_TEST(cut, is_wrong_without_reading_pending_reallocs)
{
	expect_needed(STEP_READ_PENDING, realloc_that_moves);
}

ACCOUNT_TEST(cut, is_wrong_without_reading_the_blocks_handed_over)
{
	expect_needed(STEP_TAKE_HANDED, free_and_again);
}

ACCOUNT_TEST(cut, is_wrong_without_epochs)
{
	expect_needed(STEP_NEXT_EPOCH, realloc_that_moves);
}

/* Calls that change mappings while a snapshot is taken. */

/* Unmaps the middle one of three pages. The rest has sizes of its own, so no mixture looks right. */
static void munmap_the_middle(void)
{
	user_munmap(0x2000, 0x1000);
	now_live(1 | 2 | 0x1000 | 0x800);
}

ACCOUNT_TEST(cut, is_consistent_when_the_middle_of_a_mapping_is_unmapped)
{
	mapping_size = 0x2800;
	run_all_orders(munmap_the_middle, NULL, 1000);
}

static void munmap_twice(void)
{
	user_munmap(0x3000, 0x1000);
	now_live(1 | 2 | 0x2000);
	user_munmap(0x1000, 0x1000);
	now_live(1 | 2 | 0x1000);
}

ACCOUNT_TEST(cut, is_consistent_when_a_mapping_is_unmapped_in_two_parts)
{
	mapping_size = 0x2800;
	run_all_orders(munmap_twice, NULL, 1000);
}

static void mremap_that_moves(void)
{
	user_mremap(0x1000, 0x2800, 0x4000, 0x3000);
	now_live(1 | 2 | 0x4000);
}

ACCOUNT_TEST(cut, is_consistent_when_an_mremap_moves)
{
	mapping_size = 0x2800;
	run_all_orders(mremap_that_moves, NULL, 1000);
}

static void mremap_that_fails(void)
{
	user_mremap(0x1000, 0x2800, 0x4000, MAP_FAILED);
	now_live(1 | 2 | 0x2800);
}

ACCOUNT_TEST(cut, is_consistent_when_an_mremap_fails)
{
	mapping_size = 0x2800;
	run_all_orders(mremap_that_fails, NULL, 1000);
}

static void mmap_over_another(void)
{
	user_mmap(0x400, 0x2000);
	now_live(1 | 2 | 0x1000 | 0x800 | 0x400);
}

ACCOUNT_TEST(cut, is_consistent_when_a_mapping_replaces_another)
{
	mapping_size = 0x2800;
	run_all_orders(mmap_over_another, NULL, 1000);
}
