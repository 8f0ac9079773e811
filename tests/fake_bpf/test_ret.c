// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls whose returns are seen at `ret` instructions, in whatever mode the other tests run. */
#include "target.h"

int process_switch(struct process_request *args);

/* The accounting has switched; the return probes are still there. */
static void begin_switch(void)
{
	struct process_request args = { .slot = book_of(process)->slot };

	cr_assert_eq(process_switch(&args), 0);
}

BOOK_TEST(ret, call_from_before_the_switch_is_seen_by_its_return_probe)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	begin_switch();
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	process_stop_hijacking(process);
	user_malloc(24, 0x2000);

	expect_live(0x1000, 8);
	expect_live(0x2000, 24);
	expect(allocations, 2);
}

BOOK_TEST(ret, call_during_the_switch_is_seen_once_and_has_its_true_caller)
{
	stack_is(0x10001, 0x10002);
	begin_switch();
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(4), 100);
	leave(SHAPE_MALLOC, sp_at(4), 0x2000);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 8);
	expect_gone(0x2000);
	expect(allocations, 1);
	expect(nested_calls, 1);
	cr_assert(traceback_at(0x1000));
	expect_same(traceback_at(0x1000)->pc[0], 0x10001, "the direct caller");
	expect_same(traceback_at(0x1000)->nframe, 2, "nframe");
}

BOOK_TEST(ret, of_a_function_reached_by_a_jump_ends_the_first_call)
{
	process_stop_hijacking(process);
	enter(SHAPE_REALLOC, sp_at(1), 0, 8);
	jump(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 8);
	expect(allocations, 1);
	expect(nested_calls, 1);
}

BOOK_TEST(ret, by_a_jump_to_memset_records_the_block_that_memset_fills)
{
	process_stop_hijacking(process);
	enter(SHAPE_CALLOC, sp_at(1), 3, 8);
	leave_by_jump(sp_at(2), 0x2000); /* the return of another call */
	leave_by_jump(sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect(allocations, 1);
}

/* The second call looks like a jump of the function to itself, but no function does that. */
BOOK_TEST(ret, call_is_dropped_by_the_same_call_again)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

BOOK_TEST(ret, to_another_return_address_does_not_match_the_call)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	*(__u64 *)sp_at(1) = 0x999999;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_gone(0x1000);
	expect_loss(calls_unreturned, 1);
}

BOOK_TEST(ret, call_is_dropped_though_dead_memory_below_the_stack_still_holds_it)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(9), 8);
	enter(SHAPE_MALLOC, sp_at(2), 24);
	leave(SHAPE_MALLOC, sp_at(2), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}
