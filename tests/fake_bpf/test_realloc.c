// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* realloc and reallocarray: a free and an allocation, or neither. */
#include "target.h"

ACCOUNT_TEST(realloc, that_moves_is_a_free_and_an_allocation)
{
	user_malloc(24, 0x1000);
	user_realloc(0x1000, 100, 0x2000);

	expect_gone(0x1000);
	expect_live(0x2000, 100);
	expect(allocations, 2);
	expect(frees, 1);
	expect(freed_bytes, 24);
	expect(current_blocks, 1);
	expect(current_bytes, 100);
	expect(peak_bytes, 100);
}

ACCOUNT_TEST(realloc, in_place_records_a_new_block)
{
	stack_is(0x1);
	user_malloc(24, 0x1000);
	stack_is(0x2);
	fake.now_ns = 5000;
	user_realloc(0x1000, 100, 0x1000);

	expect_live(0x1000, 100);
	expect_same(block_at(0x1000)->birth_ns, 5000, "birth_ns");
	expect_same(traceback_at(0x1000)->pc[0], 0x2, "pc");
	expect(allocations, 2);
	expect(frees, 1);
}

ACCOUNT_TEST(realloc, that_fails_keeps_the_old_block_unchanged)
{
	struct block before;

	domain = 3;
	stack_is(0x1, 0x2);
	user_malloc(24, 0x1000);
	before = *block_at(0x1000);
	domain = 0;
	stack_is(0x3);
	thread_run(thread_start(process, 101));
	user_realloc(0x1000, 1ULL << 60, 0);

	expect_live(0x1000, 24);
	cr_expect(!memcmp(block_at(0x1000), &before, sizeof(before)));
	expect(allocations, 1);
	expect(frees, 0);
	expect(failed_calls, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(realloc, that_failed_keeps_a_block_that_can_be_freed)
{
	user_malloc(24, 0x1000);
	user_realloc(0x1000, 1ULL << 60, 0);
	user_free(0x1000);

	expect(frees, 1);
	expect(unknown_frees, 0);
	expect(current_blocks, 0);
}

ACCOUNT_TEST(realloc, that_fails_into_a_full_map_drops_the_old_block)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	thread_run(thread_start(process, 101));
	user_malloc(8, 0x3000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0);

	expect_gone(0x1000);
	expect_live(0x3000, 8);
	expect_loss(blocks_dropped, 1);
	expect(current_blocks, 1);
	expect(current_bytes, 8);
}

/* The old block counts as live until realloc has succeeded. */
ACCOUNT_TEST(realloc, counts_the_old_block_until_it_returns)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	expect(current_bytes, 24);
	expect(current_blocks, 1);
	expect(frees, 0);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);

	expect(current_bytes, 100);
}

ACCOUNT_TEST(realloc, lets_another_thread_use_the_old_address_meanwhile)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	thread_run(thread_start(process, 101));
	user_malloc(8, 0x1000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);

	expect_live(0x1000, 8);
	expect_same(block_at(0x1000)->thread, 101, "thread");
	expect_live(0x2000, 100);
	expect(allocations, 3);
	expect(frees, 1);
	expect(freed_bytes, 24);
}

ACCOUNT_TEST(realloc, of_null_is_malloc)
{
	user_realloc(0, 24, 0x1000);
	expect_live(0x1000, 24);
	user_realloc(0, 24, 0);

	expect(allocations, 1);
	expect(frees, 0);
	expect(unknown_frees, 0);
	expect(failed_calls, 1);
}

/* realloc(NULL, n) in glibc: jmp malloc, at the same sp, where realloc's return is hijacked. */
ACCOUNT_TEST(realloc, of_null_that_jumps_to_malloc_counts_once)
{
	enter(SHAPE_REALLOC, sp_at(1), 0, 24);
	jump(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000); /* the kernel runs the later call's probe first */
	leave(SHAPE_REALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect(allocations, 1);
	expect(nested_calls, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(realloc, of_null_that_calls_malloc_counts_once)
{
	enter(SHAPE_REALLOC, sp_at(1), 0, 24);
	enter(SHAPE_MALLOC, sp_at(5), 24);
	leave(SHAPE_MALLOC, sp_at(5), 0x1000);
	leave(SHAPE_REALLOC, sp_at(1), 0x1000);

	expect(allocations, 1);
	expect(nested_calls, 1);
}

/* glibc's reallocarray jumps to the realloc of a preloaded allocator: the block belongs to that allocator. */
ACCOUNT_TEST(realloc, that_is_reached_by_a_jump_determines_the_domain_of_the_block)
{
	domain = 0;
	enter(SHAPE_REALLOCARRAY, sp_at(1), 0, 3, 8);
	domain = 2;
	jump(SHAPE_REALLOC, sp_at(1), 0, 24);
	leave(SHAPE_REALLOC, sp_at(1), 0x1000);
	domain = 0;
	leave(SHAPE_REALLOCARRAY, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect_same(block_at(0x1000)->domain, 2, "domain");
}

ACCOUNT_TEST(realloc, that_is_called_by_reallocarray_does_not_determine_the_domain)
{
	domain = 4;
	enter(SHAPE_REALLOCARRAY, sp_at(1), 0, 3, 8);
	domain = 2;
	enter(SHAPE_REALLOC, sp_at(5), 0, 24);
	leave(SHAPE_REALLOC, sp_at(5), 0x1000);
	domain = 4;
	leave(SHAPE_REALLOCARRAY, sp_at(1), 0x1000);

	expect_same(block_at(0x1000)->domain, 4, "domain");
}

ACCOUNT_TEST(realloc, by_reallocf_that_fails_frees_the_block)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOCF, sp_at(1), 0x1000, 1ULL << 60);
	leave(SHAPE_REALLOCF, sp_at(1), 0);

	expect_gone(0x1000);
	expect(frees, 1);
	expect(failed_calls, 1);
	expect(current_bytes, 0);
}

ACCOUNT_TEST(realloc, by_reallocf_that_moves_is_a_free_and_an_allocation)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOCF, sp_at(1), 0x1000, 100);
	leave(SHAPE_REALLOCF, sp_at(1), 0x2000);

	expect_gone(0x1000);
	expect_live(0x2000, 100);
	expect(frees, 1);
}

/* xallocx() returns the new size of the block. */
ACCOUNT_TEST(realloc, by_xallocx_stays_in_place)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_XALLOCX, sp_at(1), 0x1000, 100);
	leave(SHAPE_XALLOCX, sp_at(1), 112);

	expect_live(0x1000, 100);
	expect(allocations, 2);
	expect(frees, 1);
	expect(current_bytes, 100);
}

ACCOUNT_TEST(realloc, by_xallocx_that_finds_no_room_keeps_the_block)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_XALLOCX, sp_at(1), 0x1000, 100);
	leave(SHAPE_XALLOCX, sp_at(1), 32);

	expect_live(0x1000, 24);
	expect(allocations, 1);
	expect(frees, 0);
	expect(failed_calls, 1);
}

static void enter_of_heap(enum call_shape shape, __u64 first, __u64 second, __u64 third)
{
	of_heap = true;
	enter(shape, sp_at(1), 0x7777, first, second, third);
	of_heap = false;
}

static void leave_of_heap(enum call_shape shape, __u64 returned)
{
	of_heap = true;
	leave(shape, sp_at(1), returned);
	of_heap = false;
}

/* mi_heap_malloc, _calloc, _realloc, _reallocn: the heap comes first. */
ACCOUNT_TEST(heaps, passed_as_first_argument_shift_the_other_arguments)
{
	enter_of_heap(SHAPE_MALLOC, 24, 0, 0);
	leave_of_heap(SHAPE_MALLOC, 0x1000);
	enter_of_heap(SHAPE_CALLOC, 3, 10, 0);
	leave_of_heap(SHAPE_CALLOC, 0x2000);
	expect_live(0x1000, 24);
	expect_live(0x2000, 30);
	enter_of_heap(SHAPE_REALLOC, 0x1000, 50, 0);
	leave_of_heap(SHAPE_REALLOC, 0x3000);
	enter_of_heap(SHAPE_REALLOCARRAY, 0x2000, 7, 10);
	leave_of_heap(SHAPE_REALLOCARRAY, 0x4000);
	expect_gone(0x1000);
	expect_gone(0x2000);
	expect_live(0x3000, 50);
	expect_live(0x4000, 70);
	enter_of_heap(SHAPE_REALLOCF, 0x4000, 80, 0);
	leave_of_heap(SHAPE_REALLOCF, 0);
	expect_gone(0x4000);
	expect(current_bytes, 50);
}

ACCOUNT_TEST(realloc, to_0_bytes_that_returns_null_frees_the_block)
{
	user_malloc(24, 0x1000);
	user_realloc(0x1000, 0, 0);

	expect_gone(0x1000);
	expect(frees, 1);
	expect(allocations, 1);
	expect(current_bytes, 0);
}

ACCOUNT_TEST(realloc, to_0_bytes_that_returns_a_block_records_it)
{
	user_malloc(24, 0x1000);
	user_realloc(0x1000, 0, 0x1000);

	expect_live(0x1000, 0);
	expect(frees, 1);
	expect(allocations, 2);
}

ACCOUNT_TEST(realloc, of_an_unknown_block_is_an_unknown_free_and_an_allocation)
{
	user_realloc(0x1000, 24, 0x2000);

	expect_live(0x2000, 24);
	expect(unknown_frees, 1);
	expect(frees, 0);
	expect(allocations, 1);
}

ACCOUNT_TEST(realloc, that_fails_on_an_unknown_block_frees_nothing)
{
	user_realloc(0x1000, 24, 0);

	expect(unknown_frees, 0);
	expect(allocations, 0);
	expect(failed_calls, 1);
	expect_gone(0x1000);
}

/* Most likely it has succeeded: an allocator does not longjmp, only the return was missed. */
ACCOUNT_TEST(realloc, that_never_returns_frees_the_old_block)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	stack_is(0x403000); /* another call */
	user_malloc(8, 0x3000);

	expect_gone(0x1000);
	expect_live(0x3000, 8);
	expect_loss(calls_unreturned, 1);
	expect(frees, 1);
}

ACCOUNT_TEST(reallocarray, records_count_times_size)
{
	user_malloc(24, 0x1000);
	user_reallocarray(0x1000, 3, 100, 0x2000);

	expect_gone(0x1000);
	expect_live(0x2000, 300);
	expect(frees, 1);
}

ACCOUNT_TEST(reallocarray, that_overflows_keeps_the_old_block)
{
	user_malloc(24, 0x1000);
	user_reallocarray(0x1000, 1ULL << 32, 1ULL << 32, 0);

	expect_live(0x1000, 24);
	expect(frees, 0);
	expect(failed_calls, 1);
}

ACCOUNT_TEST(reallocarray, of_0_members_that_returns_null_frees_the_block)
{
	user_malloc(24, 0x1000);
	user_reallocarray(0x1000, 0, 100, 0);

	expect_gone(0x1000);
	expect(frees, 1);
}

/* glibc: after the overflow check, jmp realloc. */
ACCOUNT_TEST(reallocarray, that_jumps_to_realloc_counts_once)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOCARRAY, sp_at(1), 0x1000, 3, 100);
	jump(SHAPE_REALLOC, sp_at(1), 0x1000, 300);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	leave(SHAPE_REALLOCARRAY, sp_at(1), 0x2000);

	expect_gone(0x1000);
	expect_live(0x2000, 300);
	expect(allocations, 2);
	expect(frees, 1);
	expect(unknown_frees, 0);
	expect(nested_calls, 1);
}
