// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cut_orders.h"

/* The calls that follow, while a snapshot is taken: a test of them in all orders. mapping_bytes: of the mapping before them. */
#define CONSISTENT_WHEN(name, mapping_bytes) \
	static void name(void); \
	ACCOUNT_TEST(cut, is_consistent_when_##name) \
	{ \
		mapping_size = mapping_bytes; \
		run_all_orders(name, NULL, 1000); \
	} \
	static void name(void)

/* ---- heap calls ---- */

CONSISTENT_WHEN(an_address_is_allocated_again, 0)
{
	user_free(0x1000);
	now_live(2);
	user_malloc(4, 0x1000);
	now_live(2 | 4);
}

CONSISTENT_WHEN(a_realloc_moves_its_block, 0)
{
	user_realloc(0x1000, 4, 0x3000);
	now_live(2 | 4);
}

CONSISTENT_WHEN(a_realloc_stays_in_place, 0)
{
	user_realloc(0x1000, 4, 0x1000);
	now_live(2 | 4);
}

CONSISTENT_WHEN(a_realloc_fails, 0)
{
	user_realloc(0x1000, 4, 0);
	now_live(1 | 2);
}

CONSISTENT_WHEN(a_realloc_to_0_bytes_frees, 0)
{
	user_realloc(0x1000, 0, 0);
	now_live(2);
}

static void free_the_other(void)
{
	enter(SHAPE_FREE, sp_at(1), 0x2000);
}

ACCOUNT_TEST(cut, is_consistent_when_another_thread_frees)
{
	static const struct intrusion intrusion = { free_the_other, .removes = 2 };

	run_all_orders(a_realloc_moves_its_block, &intrusion, 100000);
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
	expect_needed(STEP_WAIT, a_realloc_moves_its_block);
}

ACCOUNT_TEST(cut, is_wrong_without_reading_pending_reallocs)
{
	expect_needed(STEP_READ_PENDING, a_realloc_moves_its_block);
}

ACCOUNT_TEST(cut, is_wrong_without_reading_the_blocks_handed_over)
{
	expect_needed(STEP_TAKE_HANDED, an_address_is_allocated_again);
}

ACCOUNT_TEST(cut, is_wrong_without_epochs)
{
	expect_needed(STEP_NEXT_EPOCH, a_realloc_moves_its_block);
}

/* ---- calls that change mappings ---- */

/* Unmaps the middle one of three pages. The rest has sizes of its own, so no mixture looks right. */
CONSISTENT_WHEN(the_middle_of_a_mapping_is_unmapped, 0x2800)
{
	user_munmap(0x2000, 0x1000);
	now_live(1 | 2 | 0x1000 | 0x800);
}

CONSISTENT_WHEN(a_mapping_is_unmapped_in_two_parts, 0x2800)
{
	user_munmap(0x3000, 0x1000);
	now_live(1 | 2 | 0x2000);
	user_munmap(0x1000, 0x1000);
	now_live(1 | 2 | 0x1000);
}

CONSISTENT_WHEN(an_mremap_moves, 0x2800)
{
	user_mremap(0x1000, 0x2800, 0x4000, 0x3000);
	now_live(1 | 2 | 0x4000);
}

CONSISTENT_WHEN(an_mremap_fails, 0x2800)
{
	user_mremap(0x1000, 0x2800, 0x4000, MAP_FAILED);
	now_live(1 | 2 | 0x2800);
}

CONSISTENT_WHEN(a_mapping_replaces_another, 0x2800)
{
	user_mmap(0x400, 0x2000);
	now_live(1 | 2 | 0x1000 | 0x800 | 0x400);
}
