// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Functions that throw: their returns are seen at `ret`, even if those of other functions are hijacked. */
#include "target.h"

static void new_enter(unsigned int depth, __u64 size)
{
	is_throwing = true;
	site_offset = 100;
	enter(SHAPE_MALLOC, sp_at(depth), size);
	is_throwing = false;
	site_offset = 0;
}

static void new_leave(unsigned int depth, __u64 returned)
{
	is_throwing = true;
	site_offset = 100;
	leave(SHAPE_MALLOC, sp_at(depth), returned);
	is_throwing = false;
	site_offset = 0;
}

BOOK_TEST(throws, function_keeps_its_return_address)
{
	stack_is(0x10001, 0x10002);
	new_enter(1, 24);
	expect_same(*(__u64 *)sp_at(1), 0x10001, "the return address");
	new_leave(1, 0x1000);

	expect_live(0x1000, 24);
	cr_assert(traceback_at(0x1000));
	expect_same(traceback_at(0x1000)->pc[0], 0x10001, "the direct caller");
}

BOOK_TEST(throws, function_includes_the_calls_that_it_makes)
{
	new_enter(1, 24);
	enter(SHAPE_MALLOC, sp_at(4), 40);
	leave(SHAPE_MALLOC, sp_at(4), 0x2000);
	new_leave(1, 0x1000);
	user_malloc(8, 0x3000);

	expect_gone(0x2000);
	expect_live(0x1000, 24);
	expect_live(0x3000, 8);
	expect(nested_calls, 1);
}

BOOK_TEST(throws, function_inside_another_call_counts_as_nested)
{
	enter(SHAPE_MALLOC, sp_at(1), 24);
	new_enter(4, 40);
	new_leave(4, 0x2000);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_gone(0x2000);
	expect_live(0x1000, 24);
	expect(nested_calls, 1);
}

/* The exception is caught above, and what allocates next is called from there. */
BOOK_TEST(throws, function_left_by_an_exception_is_dropped)
{
	new_enter(5, ~0ULL >> 2);
	user_malloc(24, 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
	expect(allocations, 1);
	expect(nested_calls, 0);
}

BOOK_TEST(throws, function_left_by_an_exception_may_be_called_again_at_the_same_stack_pointer)
{
	new_enter(5, ~0ULL >> 2);
	new_enter(5, 24);
	new_leave(5, 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}
