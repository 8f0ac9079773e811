// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause


#include "target.h"

/* The call shapes: what a call that returns enters, and what a free removes. */

ACCOUNT_TEST(calls, malloc_records_a_block)
{
	user_malloc(24, 0x1000);

	expect_live(0x1000, 24);
	expect(allocations, 1);
	expect(allocated_bytes, 24);
	expect(current_blocks, 1);
	expect(current_bytes, 24);
	expect(peak_bytes, 24);
}

ACCOUNT_TEST(calls, a_block_has_its_birth_time_thread_and_domain)
{
	domain = 7;
	fake.now_ns = 123456;
	thread_run(thread_start(process, 101));
	user_malloc(24, 0x1000);

	cr_assert(block_at(0x1000));
	expect_same(block_at(0x1000)->birth_ns, 123456, "birth_ns");
	expect_same(block_at(0x1000)->thread, 101, "thread");
	expect_same(block_at(0x1000)->domain, 7, "domain");
}

ACCOUNT_TEST(calls, a_block_is_recorded_only_when_the_call_returns)
{
	enter(SHAPE_MALLOC, sp_at(1), 24);
	expect_gone(0x1000);
	expect(current_bytes, 0);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
}

int leave_call(struct pt_regs *ctx);

/* As old kernels (6.1) do at the returns of all processes whose function has a return probe. */
static void return_at_probe_of(__u32 slot, __u64 returned)
{
	struct pt_regs regs = {};

	PT_REGS_IP(&regs) = fake.frame[0];
	PT_REGS_SP(&regs) = sp_at(1) + RET_POPS;
	PT_REGS_RC(&regs) = returned;
	fake.attach_cookie = SITE_COOKIE(SHAPE_MALLOC, SHAPE_MALLOC, LAYER_HEAP, 0) | USER_CALL_COOKIE(slot + 1);
	leave_call(&regs);
}

ACCOUNT_TEST(calls, a_return_at_the_probe_of_another_process_is_not_counted)
{
	enter(SHAPE_MALLOC, sp_at(1), 24);
	return_at_probe_of(book_of(process)->slot + 1, 0x2000);
	expect(allocations, 0);
	return_at_probe_of(book_of(process)->slot, 0x1000);
	return_at_probe_of(book_of(process)->slot + 1, 0x2000);

	expect_live(0x1000, 24);
	expect(allocations, 1);
	expect_loss(returns_unmatched, 0);
}

ACCOUNT_TEST(calls, free_removes_the_block)
{
	user_malloc(24, 0x1000);
	user_malloc(8, 0x2000);
	user_free(0x1000);

	expect_gone(0x1000);
	expect_live(0x2000, 8);
	expect(frees, 1);
	expect(freed_bytes, 24);
	expect(current_blocks, 1);
	expect(current_bytes, 8);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(calls, another_thread_may_free_a_block)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	user_free(0x1000);

	expect_gone(0x1000);
	expect(frees, 1);
}

ACCOUNT_TEST(calls, malloc_of_0_bytes_records_a_block)
{
	user_malloc(0, 0x1000);

	expect_live(0x1000, 0);
	expect(current_blocks, 1);
}

ACCOUNT_TEST(calls, a_failed_malloc_records_nothing)
{
	user_malloc(24, 0);

	expect(allocations, 0);
	expect(failed_calls, 1);
	expect(peak_bytes, 0);
	cr_expect(block_cnt() == 0);
}

ACCOUNT_TEST(calls, calloc_records_count_times_size)
{
	user_calloc(3, 100, 0x1000);
	user_calloc(0, 100, 0x2000);
	user_calloc(100, 0, 0x3000);

	expect_live(0x1000, 300);
	expect_live(0x2000, 0);
	expect_live(0x3000, 0);
}

ACCOUNT_TEST(calls, calloc_size_may_use_all_64_bits)
{
	user_calloc(~0ULL, 1, 0x1000);
	user_free(0x1000);
	user_calloc(1ULL << 32, (1ULL << 32) - 1, 0x1000);

	expect_live(0x1000, 0xffffffff00000000);
}

/* No allocator succeeds here; a block would get a size that is plainly wrong. */
ACCOUNT_TEST(calls, calloc_that_overflows_does_not_wrap_around)
{
	user_calloc(1ULL << 32, 1ULL << 32, 0);
	expect(failed_calls, 1);
	expect(allocations, 0);

	user_calloc((1ULL << 32) + 1, 1ULL << 32, 0x1000);
	expect_live(0x1000, ~0ULL);
}

ACCOUNT_TEST(calls, memalign_reads_the_size_from_its_second_argument)
{
	user_memalign(4096, 24, 0x1000);

	expect_live(0x1000, 24);
}

ACCOUNT_TEST(calls, free_of_null_is_ignored)
{
	user_free(0);

	expect(frees, 0);
	expect(unknown_frees, 0);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(calls, an_unknown_free_is_counted_separately)
{
	user_free(0x1000);
	user_malloc(24, 0x1000);
	user_free(0x1000);
	user_free(0x1000);

	expect(unknown_frees, 2);
	expect(frees, 1);
	expect(current_blocks, 0);
}

ACCOUNT_TEST(calls, the_peak_stays_when_blocks_are_freed)
{
	user_malloc(100, 0x1000);
	user_malloc(50, 0x2000);
	user_free(0x1000);
	user_malloc(60, 0x3000);
	user_free(0x2000);
	user_free(0x3000);

	expect(peak_bytes, 150);
	expect(current_bytes, 0);
}

ACCOUNT_TEST(calls, a_missed_free_is_detected_when_its_address_is_allocated_again)
{
	user_malloc(24, 0x1000);
	user_malloc(100, 0x1000);

	expect_live(0x1000, 100);
	expect_loss(blocks_replaced, 1);
	expect(allocations, 2);
	expect(allocated_bytes, 124);
	expect(frees, 1);
	expect(freed_bytes, 24);
	expect(current_blocks, 1);
	expect(peak_bytes, 100);
}

/* ---- posix_memalign: returns an error number; the block is stored where the first argument points ---- */

static __u64 result; /* of the target's, so it has an address */

static void user_posix_memalign(__u64 size, __u64 stored, __u64 returned)
{
	enter(SHAPE_POSIX_MEMALIGN, sp_at(1), (__u64)&result, 64, size);
	result = stored;
	leave(SHAPE_POSIX_MEMALIGN, sp_at(1), returned);
}

ACCOUNT_TEST(posix_memalign, records_the_address_that_it_stored)
{
	result = 0x9000;
	user_posix_memalign(24, 0x1000, 0);

	expect_live(0x1000, 24);
	expect_gone(0x9000);
}

ACCOUNT_TEST(posix_memalign, records_nothing_when_it_returns_an_error)
{
	user_posix_memalign(24, 0x1000, 12);

	expect_gone(0x1000);
	expect(failed_calls, 1);
	expect(allocations, 0);
}

ACCOUNT_TEST(posix_memalign, result_is_read_as_a_32_bit_int)
{
	user_posix_memalign(24, 0x1000, 0xdeadbeef00000000);
	user_posix_memalign(48, 0x2000, 0xdeadbeef0000000c);

	expect_live(0x1000, 24);
	expect_gone(0x2000);
}

ACCOUNT_TEST(posix_memalign, records_no_block_when_it_stored_null)
{
	user_posix_memalign(0, 0, 0);

	expect(allocations, 0);
	expect(failed_calls, 1);
}

ACCOUNT_TEST(posix_memalign, counts_a_loss_when_its_result_is_unreadable)
{
	fake.fault_address = (__u64)&result;
	user_posix_memalign(24, 0x1000, 0);

	expect_loss(results_unreadable, 1);
	expect(allocations, 0);
	expect(failed_calls, 0);

	fake.fault_address = 0; /* and the thread goes on */
	user_posix_memalign(24, 0x2000, 0);
	expect_live(0x2000, 24);
}

/* Functions that throw: their returns are seen at `ret`, even if returns of other functions are hijacked. */

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

ACCOUNT_TEST(throws, function_keeps_its_return_address)
{
	stack_is(0x10001, 0x10002);
	new_enter(1, 24);
	expect_same(*(__u64 *)sp_at(1), 0x10001, "the return address");
	new_leave(1, 0x1000);

	expect_live(0x1000, 24);
	cr_assert(traceback_at(0x1000));
	expect_same(traceback_at(0x1000)->pc[0], 0x10001, "the direct caller");
}

ACCOUNT_TEST(throws, function_includes_the_calls_that_it_makes)
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

ACCOUNT_TEST(throws, function_inside_another_call_counts_as_nested)
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
ACCOUNT_TEST(throws, function_left_by_an_exception_is_dropped)
{
	new_enter(5, ~0ULL >> 2);
	user_malloc(24, 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
	expect(allocations, 1);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(throws, function_left_by_an_exception_may_be_called_again_at_the_same_stack_pointer)
{
	new_enter(5, ~0ULL >> 2);
	new_enter(5, 24);
	new_leave(5, 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

/* Calls whose returns are seen at `ret` instructions, in whatever mode the other tests run. */

int process_switch(struct process_request *args);

/* The accounting has switched; the return probes are still there. */
static void begin_switch(void)
{
	struct process_request args = { .slot = book_of(process)->slot };

	cr_assert_eq(process_switch(&args), 0);
}

ACCOUNT_TEST(ret, call_from_before_the_switch_is_seen_by_its_return_probe)
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

ACCOUNT_TEST(ret, call_during_the_switch_is_seen_once_and_has_its_true_caller)
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

ACCOUNT_TEST(ret, of_a_function_reached_by_a_jump_ends_the_first_call)
{
	process_stop_hijacking(process);
	enter(SHAPE_REALLOC, sp_at(1), 0, 8);
	jump(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 8);
	expect(allocations, 1);
	expect(nested_calls, 1);
}

ACCOUNT_TEST(ret, by_a_jump_to_memset_records_the_block_that_memset_fills)
{
	process_stop_hijacking(process);
	enter(SHAPE_CALLOC, sp_at(1), 3, 8);
	leave_by_jump(sp_at(2), 0x2000); /* the return of another call */
	leave_by_jump(sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect(allocations, 1);
}

/* The second call looks like a jump of the function to itself, but no function does that. */
ACCOUNT_TEST(ret, call_is_dropped_by_the_same_call_again)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(ret, to_another_return_address_does_not_match_the_call)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	*(__u64 *)sp_at(1) = 0x999999;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_gone(0x1000);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(ret, call_is_dropped_though_dead_memory_below_the_stack_still_holds_it)
{
	process_stop_hijacking(process);
	enter(SHAPE_MALLOC, sp_at(9), 8);
	enter(SHAPE_MALLOC, sp_at(2), 24);
	leave(SHAPE_MALLOC, sp_at(2), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}
