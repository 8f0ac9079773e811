// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "target.h"

#include <bpf/bpf_helpers.h>

/* the pid of a dead process is taken before the loader has drained its book */
BOOK_TEST(accounting, a_dead_process_keeps_its_accounting_when_its_pid_is_reused)
{
	struct target_thread *thread;
	__u64 image, exit_ns;

	user_malloc(8, 0x1000);
	thread_exit(main_thread, 3 << 8);
	image = book_of(process)->image;
	exit_ns = book_of(process)->exit_ns;

	thread = thread_start(process, 100);
	thread_run(thread);
	user_malloc(8, 0x2000);
	user_free(0x1000);
	expect(allocations, 1);
	expect_live(0x1000, 8);
	thread_exec(thread);
	thread_exit(thread, 0);
	expect_same(book_of(process)->image, image, "image");
	expect_same(book_of(process)->exit_ns, exit_ns, "exit_ns");
	expect_same(book_of(process)->exit_code, 3 << 8, "exit_code");
	expect_live(0x1000, 8);
}

BOOK_TEST(accounting, total_nframe_is_counted_for_each_stack)
{
	settings_set(2, 0);
	stack_is(0x10001, 0x10002, 0x10003);
	user_malloc(8, 0x1000);
	stack_is(0x10001, 0x10002, 0x10003, 0x10004, 0x10005);
	user_malloc(8, 0x2000);
	expect_same(traceback_at(0x1000)->total_nframe, 3, "total_nframe");
	expect_same(traceback_at(0x2000)->total_nframe, 5, "total_nframe");
}

/* a call was left by an exception; its return slot was overwritten since; all deeper calls vanish */
BOOK_TEST(accounting, a_lost_call_does_not_hide_deeper_calls)
{
	enter(SHAPE_MALLOC, sp_at(10), 8);
	*(__u64 *)sp_at(10) = 42; /* a local variable now */
	for (int i = 1; i <= 100; i++) {
		enter(SHAPE_MALLOC, sp_at(20), 8);
		leave(SHAPE_MALLOC, sp_at(20), 0x1000 * i);
	}
	expect(allocations, 100);
	expect_loss(calls_unreturned, 1);
}

BOOK_TEST(accounting, a_realloc_of_a_thread_without_state_frees_the_old_block)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	fake.out_of_memory = false;
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect_loss(threads_dropped, 1);
	expect_unmatched(calls_are_sessions() ? 0 : 1);
	expect_gone(0x1000);
}

/* the target has a bug: double use of p across threads */
BOOK_TEST(accounting, a_failed_realloc_whose_old_address_is_reused_keeps_the_sums_right)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	thread_run(thread_start(process, 101));
	user_free(0x1000);
	user_malloc(8, 0x1000);
	thread_run(main_thread);
	leave(SHAPE_REALLOC, sp_at(1), 0);
	expect_loss(blocks_replaced, 1);
}

/* clear_traces or a second attach gives a new image while a realloc is pending */
BOOK_TEST(accounting, an_accounting_that_starts_during_a_realloc_does_not_underflow)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 100);
	process_admit(process);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect(current_bytes, 100);
	expect(frees, 0);
}

/* OOM kill inside realloc's copy */
BOOK_TEST(accounting, a_process_killed_during_realloc_keeps_the_old_block)
{
	user_malloc(1 << 30, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 1ULL << 31);
	process->signal.group_exit_code = 9;
	thread_exit(main_thread, 9);
	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 1 << 30);
}

/* While probes are being placed, calls in flight are noted and nothing else. */
BOOK_TEST(accounting, an_accounting_that_is_not_open_records_only_calls_that_return_after_it_opens)
{
	book_of(process)->is_open = 0;
	user_malloc(8, 0x1000);
	user_free(0x3000);
	leave(SHAPE_MALLOC, sp_at(1), 0x4000);
	expect(allocations, 0);
	expect(unknown_frees, 0);
	enter(SHAPE_MALLOC, sp_at(1), 16);
	book_of(process)->is_open = 1;
	leave(SHAPE_MALLOC, sp_at(1), 0x2000);
	expect(allocations, 1);
	expect_live(0x2000, 16);
}
