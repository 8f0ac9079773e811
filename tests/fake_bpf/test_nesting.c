// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Calls inside calls, calls that never return, returns of calls that never were. */
#include <stdlib.h>

#include "target.h"

ACCOUNT_TEST(nesting, a_nested_call_is_counted_and_only_the_outer_call_is_recorded)
{
	enter(SHAPE_CALLOC, sp_at(1), 3, 8);
	enter(SHAPE_MALLOC, sp_at(4), 40);
	leave(SHAPE_MALLOC, sp_at(4), 0x1000);
	expect(allocations, 0);
	leave(SHAPE_CALLOC, sp_at(1), 0x1010);

	expect_gone(0x1000);
	expect_live(0x1010, 24);
	expect(allocations, 1);
	expect(nested_calls, 1);
}

/* If the return address is hijacked on a higher stack, the kernel may end the process. */
ACCOUNT_TEST(nesting, a_nested_call_in_a_session_keeps_its_return_address)
{
	if (!getenv("FAKE_SESSION"))
		return;
	enter(SHAPE_CALLOC, sp_at(1), 3, 8);
	enter(SHAPE_MALLOC, sp_at(4), 40);
	expect_same(*(__u64 *)sp_at(1), TRAMPOLINE, "the outer return address");
	expect_same(*(__u64 *)sp_at(4), 0x401000, "the inner return address");
}

ACCOUNT_TEST(nesting, may_have_any_depth)
{
	for (int depth = 1; depth <= 5; depth++)
		enter(SHAPE_MALLOC, sp_at(depth), depth);
	for (int depth = 5; depth >= 1; depth--)
		leave(SHAPE_MALLOC, sp_at(depth), 0x1000 * depth);

	expect_live(0x1000, 1);
	expect(allocations, 1);
	expect(nested_calls, 4);
}

ACCOUNT_TEST(nesting, a_nested_free_is_ignored_and_counted)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_FREE, sp_at(4), 0x1000);
	enter(SHAPE_FREE, sp_at(4), 0x7000);
	leave(SHAPE_MALLOC, sp_at(1), 0x2000);

	expect_live(0x1000, 24);
	expect(frees, 0);
	expect(unknown_frees, 0);
	expect(nested_calls, 2);
}

/* free() of a preloaded allocator, which calls or jumps to libc's. */
static void free_from(unsigned int depth, __u32 offset, __u64 address)
{
	site_offset = offset;
	enter(SHAPE_FREE, sp_at(depth), address);
	site_offset = 0;
}

ACCOUNT_TEST(nesting, a_free_that_is_passed_on_counts_once)
{
	user_malloc(24, 0x1000);
	user_malloc(32, 0x2000);
	free_from(1, 100, 0x1000);
	free_from(2, 0, 0x1000);
	free_from(1, 100, 0x2000);
	free_from(1, 0, 0x2000); /* a tail call */
	free_from(1, 200, 0x3000); /* older than the recording, and through two wrappers */
	free_from(2, 100, 0x3000);
	free_from(3, 0, 0x3000);

	expect(frees, 2);
	expect(unknown_frees, 1);
	expect(nested_calls, 4);
}

ACCOUNT_TEST(nesting, a_free_of_a_dropped_block_that_is_passed_on_counts_once)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	fake_map_resize(&dropped_blocks, 8);
	user_malloc(24, 0x1000);
	user_malloc(32, 0x2000);
	free_from(1, 100, 0x2000);
	free_from(2, 0, 0x2000);

	expect_loss(blocks_dropped, 1);
	expect(dropped_frees, 1);
	expect(nested_calls, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(nesting, a_free_of_another_address_is_a_free_of_its_own)
{
	user_malloc(24, 0x1000);
	free_from(1, 100, 0x1000);
	free_from(2, 0, 0x3000);
	free_from(2, 0, 0x1000);

	expect(unknown_frees, 2);
	expect(nested_calls, 0);
}

/* When a thread exits, libc frees the thread's cached blocks again, outside any other allocator's free. */
ACCOUNT_TEST(nesting, a_second_free_at_the_same_depth_is_a_free_of_its_own)
{
	user_malloc(24, 0x1000);
	free_from(3, 100, 0x1000);
	free_from(4, 0, 0x1000);
	free_from(4, 0, 0x1000);
	user_malloc(24, 0x2000);
	free_from(3, 100, 0x2000);
	free_from(2, 0, 0x2000); /* from further out */

	expect(frees, 2);
	expect(unknown_frees, 2);
	expect(nested_calls, 1);
}

/* glibc's free does this from 2.42 on, in a thread that has no cache yet. */
ACCOUNT_TEST(nesting, a_free_that_jumps_back_to_its_start_counts_once)
{
	restarts = true;
	user_malloc(24, 0x1000);
	free_from(3, 0, 0x1000);
	free_from(3, 0, 0x1000);
	free_from(3, 0, 0x2000); /* older than the recording */
	free_from(3, 0, 0x2000);
	free_from(4, 0, 0x2000); /* elsewhere: no jump */
	restarts = false;

	expect(frees, 1);
	expect(unknown_frees, 2);
	expect(nested_calls, 2);
}

ACCOUNT_TEST(nesting, a_free_of_an_address_that_was_allocated_again_counts_twice)
{
	user_malloc(24, 0x1000);
	free_from(1, 100, 0x1000);
	user_malloc(32, 0x1000);
	free_from(2, 0, 0x1000);

	expect(frees, 2);
	expect(unknown_frees, 0);
}

/* One that only frees what others have allocated. */
ACCOUNT_TEST(nesting, a_free_that_is_passed_on_counts_once_in_a_thread_that_never_allocates)
{
	user_malloc(24, 0x1000);
	thread_run(thread_start(process, 101));
	free_from(1, 100, 0x1000);
	free_from(2, 0, 0x1000);

	expect(frees, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(nesting, is_tracked_for_each_thread)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	thread_run(thread_start(process, 101));
	user_malloc(24, 0x1000);
	user_free(0x1000);
	thread_run(main_thread);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 8);
	expect(allocations, 2);
	expect(nested_calls, 0);
}

ACCOUNT_TEST(nesting, a_return_at_another_depth_does_not_match_the_call)
{
	enter(SHAPE_MALLOC, sp_at(3), 8);
	leave(SHAPE_MALLOC, sp_at(4), 0x2000);
	leave(SHAPE_MALLOC, sp_at(2), 0x3000);
	leave(SHAPE_MALLOC, sp_at(3), 0x1000);

	expect_live(0x1000, 8);
	expect(allocations, 1);
}

ACCOUNT_TEST(nesting, a_return_of_another_site_does_not_match_the_call)
{
	if (returns_are_probed()) /* there the stack pointer is the only criterion */
		return;
	enter(SHAPE_MALLOC, sp_at(1), 8);
	site_offset = 100;
	leave(SHAPE_MALLOC, sp_at(1), 0x2000);
	site_offset = 0;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 8);
	expect_gone(0x2000);
	expect(allocations, 1);
}

/* Two allocators with one shape: the domain is part of the cookie and no part of the match. */
ACCOUNT_TEST(nesting, a_block_has_the_domain_of_the_entry)
{
	domain = 4;
	enter(SHAPE_MALLOC, sp_at(1), 8);
	domain = 0;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	cr_assert(block_at(0x1000));
	expect_same(block_at(0x1000)->domain, 4, "domain");
}

/* ---- Calls that never return ---- */

ACCOUNT_TEST(stale, call_is_dropped_when_the_stack_pointer_is_above_it)
{
	enter(SHAPE_MALLOC, sp_at(5), 8);
	enter(SHAPE_MALLOC, sp_at(4), 24);
	leave(SHAPE_MALLOC, sp_at(4), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
	expect(allocations, 1);
	expect(nested_calls, 0);
}

/* The main thread's stack ends at its arguments; its control block may be anywhere. */
ACCOUNT_TEST(stale, call_of_the_main_thread_is_dropped_like_any_other)
{
	main_thread->task.thread.fsbase = 0x7000;
	enter(SHAPE_MALLOC, sp_at(5), 8);
	enter(SHAPE_MALLOC, sp_at(4), 24);
	leave(SHAPE_MALLOC, sp_at(4), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(stale, call_is_dropped_by_a_free)
{
	user_malloc(24, 0x1000);
	enter(SHAPE_MALLOC, sp_at(5), 8);
	enter(SHAPE_FREE, sp_at(2), 0x1000);

	expect_gone(0x1000);
	expect_loss(calls_unreturned, 1);
	expect(frees, 1);
	expect(nested_calls, 0);
}

/* CALL has written a return address where the hijacked one was. */
ACCOUNT_TEST(stale, call_is_dropped_by_another_call_at_its_stack_pointer)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	enter(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
	expect(nested_calls, 0);
}

/* No return probe has ever been hit in this process, so nothing can be hijacked. */
ACCOUNT_TEST(stale, call_is_dropped_when_the_process_has_no_trampoline)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	process->mm.uprobes_state.xol_area = NULL;
	*(__u64 *)sp_at(1) = 0x401999;
	jump(SHAPE_MALLOC, sp_at(1), 24);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

ACCOUNT_TEST(stale, call_is_dropped_when_its_return_address_is_unreadable)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	fake.fault_address = sp_at(1);
	user_free(0x7000);
	fake.fault_address = 0;
	user_malloc(24, 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(stale, call_has_an_unmatched_return_after_it_was_dropped)
{
	enter(SHAPE_MALLOC, sp_at(5), 8);
	user_malloc(24, 0x1000);
	leave(SHAPE_MALLOC, sp_at(5), 0x2000);

	expect_gone(0x2000);
	expect_loss(calls_unreturned, 1);
	expect_unmatched(1);
}

/* A signal handler allocates while malloc is under way; its stack is above or below. */
static void malloc_in_handler(void)
{
	enter(SHAPE_MALLOC, sp_at(5), 8);
	cr_assert(alternate_sp_at(5) > sp_at(5));
	enter(SHAPE_MALLOC, alternate_sp_at(5), 24);
	leave(SHAPE_MALLOC, alternate_sp_at(5), 0x2000);
	leave(SHAPE_MALLOC, sp_at(5), 0x1000);

	expect_live(0x1000, 8);
	expect_gone(0x2000);
	expect(nested_calls, 0);
	expect_loss(calls_declined, 1);
}

ACCOUNT_TEST(stale, call_is_kept_when_the_other_stack_is_the_alternate_stack)
{
	/* One mapping holds both stacks, so only the alternate stack's bounds distinguish them. */
	vma_add(main_thread->stack, sizeof(main_thread->stack) * 2);
	main_thread->task.sas_ss_sp = (__u64)main_thread->alternate_stack;
	main_thread->task.sas_ss_size = sizeof(main_thread->alternate_stack);
	malloc_in_handler();
}

ACCOUNT_TEST(stale, call_is_kept_when_the_other_stack_is_another_mapping)
{
	vma_add(main_thread->alternate_stack, sizeof(main_thread->alternate_stack));
	malloc_in_handler();
}

/* Without sessions the loader must see the thread in time. */
ACCOUNT_TEST(declined, calls_of_a_thread_whose_system_calls_do_not_reach_the_kernel)
{
	if (!calls_are_sessions())
		return;
	user_malloc(8, 0x1000);
	main_thread->task.thread_info.syscall_work = 1 << 5; /* syscall user dispatch */
	enter(SHAPE_MALLOC, sp_at(5), 8);
	leave(SHAPE_MALLOC, sp_at(5), 0x2000);
	enter(SHAPE_REALLOC, sp_at(5), 0x1000, 16);
	leave(SHAPE_REALLOC, sp_at(5), 0x3000);

	expect_gone(0x1000);
	expect_gone(0x2000);
	expect_gone(0x3000);
	expect_loss(calls_declined, 2);
}

ACCOUNT_TEST(stale, call_is_kept_when_its_stack_has_no_mapping)
{
	malloc_in_handler();
}

ACCOUNT_TEST(stale, call_is_kept_when_the_mappings_cannot_be_read)
{
	enter(SHAPE_MALLOC, sp_at(5), 8);
	fake.vma_busy = true;
	enter(SHAPE_MALLOC, sp_at(4), 24);
	enter(SHAPE_MALLOC, sp_at(9), 24);
	fake.vma_busy = false;
	leave(SHAPE_MALLOC, sp_at(5), 0x1000);

	expect_live(0x1000, 8);
	expect(nested_calls, 1);
	expect_loss(calls_declined, 1);
}

/* Two coroutine stacks lie side by side: a higher address does not mean that the call has been left. */
ACCOUNT_TEST(stale, call_is_kept_when_the_stacks_are_coroutines)
{
	static __u64 stacks[2][STACK_SLOTS];
	__u64 low = (__u64)&stacks[0][STACK_SLOTS - 1], high = (__u64)&stacks[1][STACK_SLOTS - 1];

	vma_add(stacks, sizeof(stacks));
	user_malloc(40, 0x3000);
	enter(SHAPE_MALLOC, low, 8);
	enter(SHAPE_MALLOC, high, 24);
	enter(SHAPE_FREE, high, 0x3000);
	leave(SHAPE_MALLOC, high, 0x2000);
	leave(SHAPE_MALLOC, low, 0x1000);

	expect_live(0x1000, 8);
	expect_gone(0x2000);
	expect_gone(0x3000);
	expect_loss(calls_declined, 1);
}

ACCOUNT_TEST(stale, call_on_the_alternate_stack_is_dropped_by_a_call_on_the_same_stack)
{
	vma_add(main_thread->alternate_stack, sizeof(main_thread->alternate_stack));
	main_thread->task.sas_ss_sp = (__u64)main_thread->alternate_stack;
	main_thread->task.sas_ss_size = sizeof(main_thread->alternate_stack);
	enter(SHAPE_MALLOC, alternate_sp_at(5), 8);
	enter(SHAPE_MALLOC, alternate_sp_at(2), 24);
	leave(SHAPE_MALLOC, alternate_sp_at(2), 0x1000);

	expect_live(0x1000, 24);
	expect_loss(calls_unreturned, 1);
}

/* ---- Returns without a call ---- */

ACCOUNT_TEST(unmatched, return_of_a_thread_without_a_call_is_counted)
{
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_gone(0x1000);
	expect_unmatched(1);
}

ACCOUNT_TEST(unmatched, second_return_of_a_call_is_counted)
{
	user_malloc(8, 0x1000);
	leave(SHAPE_MALLOC, sp_at(1), 0x2000);

	expect_live(0x1000, 8);
	expect_gone(0x2000);
	expect_unmatched(1);
	expect(allocations, 1);
}
