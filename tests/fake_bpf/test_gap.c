// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Times when nothing is recorded, and what comes after them. */
#include "target.h"

int process_pause(struct process_request *args), process_return(struct process_request *args),
	process_resume(struct process_request *args);

extern __u64 shared_paused, shared_resumed_ns;

static struct uprobe_task utask;
static struct process_request request = { .slot = 0 }; /* of the process that each test begins with */

static void gap_begins(void)
{
	cr_assert_eq(process_pause(&request), 0);
}

static void gap_ends(void)
{
	cr_assert_eq(process_return(&request), 0);
	cr_assert_eq(process_resume(&request), 0);
}

BOOK_TEST(gap, records_nothing)
{
	user_malloc(1, 0x1000);
	gap_begins();
	user_malloc(2, 0x2000);
	user_free(0x1000);
	user_free(0x3000);
	expect(allocations, 1);
	expect(frees, 0);
	expect(unknown_frees, 0);
	gap_ends();
	user_malloc(4, 0x4000);
	expect(allocations, 2);
	user_free(0x2000);
	expect(unknown_frees, 1);
}

BOOK_TEST(gap, explains_the_replacement_of_a_block_from_before_it)
{
	user_malloc(1, 0x1000);
	user_malloc(1, 0x2000);
	gap_begins();
	gap_ends();
	user_malloc(2, 0x1000);
	expect_loss(blocks_gone_in_gap, 1);
	expect_loss(blocks_replaced, 0);
	user_malloc(2, 0x3000);
	user_malloc(4, 0x3000);
	expect_loss(blocks_gone_in_gap, 1);
	expect_loss(blocks_replaced, 1);
	expect_live(0x1000, 2);
	expect_live(0x3000, 4);
}

/* The stack still looks as if the call waited for its return, but the kernel has ended the wait. */
BOOK_TEST(gap, ends_the_pending_calls)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	gap_begins();
	gap_ends();
	enter(SHAPE_MALLOC, sp_at(3), 16);
	leave(SHAPE_MALLOC, sp_at(3), 0x1000);
	expect_loss(calls_unreturned, 1);
	expect(nested_calls, 0);
	expect_live(0x1000, 16);
}

BOOK_TEST(gap, may_be_shorter_than_a_call)
{
	struct return_instance instance = { .stack = sp_at(1), .orig_ret_vaddr = fake.frame[0] };

	enter(SHAPE_MALLOC, sp_at(1), 8);
	utask.return_instances = &instance;
	main_thread->task.utask = &utask;
	gap_begins();
	gap_ends();
	enter(SHAPE_MALLOC, sp_at(3), 16); /* inside it */
	if (returns_are_probed()) { /* without a sign of the gap the call counts as nested, which does no harm */
		expect_loss(calls_unreturned, 1);
		return;
	}
	expect(nested_calls, 1);
	expect_loss(calls_unreturned, 0);
	utask.return_instances = NULL;
	enter(SHAPE_MALLOC, sp_at(3), 16);
	leave(SHAPE_MALLOC, sp_at(3), 0x1000);
	expect_loss(calls_unreturned, 1);
	expect_live(0x1000, 16);
}

/* The return could belong to another call, so it is not matched. */
BOOK_TEST(gap, does_not_match_a_return_to_a_call_from_before)
{
	enter(SHAPE_MALLOC, sp_at(1), 8);
	gap_begins();
	gap_ends();
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect_gone(0x1000);
	user_malloc(4, 0x2000);
	expect_loss(calls_unreturned, 1);
	expect_live(0x2000, 4);
}

/* While probes are placed again: a call is noted before the accounting is open. */
BOOK_TEST(gap, tracks_calls_while_probes_are_placed_again)
{
	gap_begins();
	process_return(&request);
	enter(SHAPE_MALLOC, sp_at(1), 8);
	process_resume(&request);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect_live(0x1000, 8);
}

/* The moved block is not recorded: a free of it in the gap would not be seen. */
BOOK_TEST(gap, frees_the_block_of_a_realloc_that_moves)
{
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	gap_begins();
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	expect(frees, 1);
	expect_gone(0x1000);
	expect_gone(0x2000);
	gap_ends();
	user_malloc(4, 0x2000);
	expect_loss(blocks_replaced, 0);
}

BOOK_TEST(gap, restores_the_block_of_a_realloc_that_fails)
{
	user_malloc(1, 0x1000);
	gap_begins();
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	leave(SHAPE_REALLOC, sp_at(1), 0);
	expect_live(0x1000, 1);
	expect(failed_calls, 0);
	gap_ends();
}

/* Perf uprobes trap for seconds while they go: a block from before is not followed from one to the next. */
BOOK_TEST(gap, records_no_new_block_of_a_realloc)
{
	user_malloc(1, 0x1000);
	gap_begins();
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);
	user_free(0x2000);
	gap_ends();
	expect(allocations, 1);
	expect(current_blocks, 0);
	expect_gone(0x2000);
}

BOOK_TEST(gap, ends_a_pending_realloc_as_successful)
{
	user_malloc(1, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 8);
	gap_begins();
	gap_ends();
	user_malloc(4, 0x3000);
	expect_loss(calls_unreturned, 1);
	expect(frees, 1);
	expect_gone(0x1000);
}

BOOK_TEST(gap, of_all_processes_includes_processes_that_are_forked_during_it)
{
	struct target_thread *child;

	book_of(process)->follows = 1;
	user_malloc(1, 0x1000);
	shared_paused = 1;
	user_malloc(2, 0x2000);
	child = thread_fork(200);
	thread_run(child);
	user_malloc(4, 0x1000);
	expect_in(child->process, allocations, 0);
	shared_resumed_ns = ++fake.now_ns;
	shared_paused = 0;
	user_malloc(8, 0x2000);
	expect_in(child->process, allocations, 1);
	thread_run(main_thread);
	user_malloc(2, 0x1000);
	expect(allocations, 2);
	expect_loss(blocks_gone_in_gap, 1);
}

BOOK_TEST(gap, of_a_process_that_does_not_exist_is_refused)
{
	struct process_request nobody = { .slot = PROCESSES_MAX };

	cr_expect_eq(process_pause(&nobody), -ESRCH);
	cr_expect_eq(process_return(&nobody), -ESRCH);
	cr_expect_eq(process_resume(&nobody), -ESRCH);
}
