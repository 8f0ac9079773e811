// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tracemalloc.clear_traces() and reset_peak(), which the loader asks for in between. */
#include "target.h"

#include <errno.h>

int reset_peak(struct process_request *request);

static void clear(void)
{
	clear_begin(process);
	cr_assert_eq(clear_end(process), 0);
}

BOOK_TEST(clear, starts_a_new_accounting)
{
	__u64 image = book_of(process)->image;

	user_malloc(8, 0x1000);
	user_malloc(0, 0);
	clear();

	cr_expect(book_of(process)->image != image);
	expect_same(book_of(process)->clear_cnt, 1, "clear_cnt");
	expect_same(book_of(process)->exec_cnt, 0, "exec_cnt");
	for (int i = 0; i < COUNTER_entry_traps; i++)
		expect_same(book_of(process)->counter[i], 0, "a counter");
}

BOOK_TEST(clear, makes_earlier_blocks_unknown)
{
	user_malloc(8, 0x1000);
	clear();
	expect_gone(0x1000);
	user_free(0x1000);
	user_malloc(16, 0x1000);

	expect(unknown_frees, 1);
	expect(frees, 0);
	expect_live(0x1000, 16);
}

/* The call counts after the clear; its old block does not. */
BOOK_TEST(clear, during_a_realloc_that_succeeds_counts_an_unknown_free)
{
	user_malloc(8, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	leave(SHAPE_REALLOC, sp_at(1), 0x2000);

	expect_live(0x2000, 16);
	expect(frees, 0);
	expect(unknown_frees, 1);
}

BOOK_TEST(clear, during_a_realloc_that_fails_does_not_restore_the_old_block)
{
	user_malloc(8, 0x1000);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	leave(SHAPE_REALLOC, sp_at(1), 0);

	expect_gone(0x1000);
	expect(current_blocks, 0);
}

BOOK_TEST(clear, during_a_realloc_of_a_killed_thread_does_not_restore_the_old_block)
{
	struct target_thread *thread = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(thread);
	enter(SHAPE_REALLOC, sp_at(1), 0x1000, 16);
	clear();
	thread_exit(thread, 0);

	expect_gone(0x1000);
	expect(current_blocks, 0);
	expect_loss(calls_unreturned, 1);
}

BOOK_TEST(clear, of_the_peak_sets_it_to_the_live_bytes_and_blocks)
{
	struct process_request request = { .slot = book_of(process)->slot };

	user_malloc(100, 0x1000);
	user_malloc(50, 0x2000);
	user_free(0x1000);
	cr_assert_eq(reset_peak(&request), 0);
	expect(peak_bytes, 50);
	expect(peak_blocks, 1);
	user_malloc(20, 0x1000);

	expect(peak_bytes, 70);
	expect(peak_blocks, 2);
}

BOOK_TEST(clear, of_an_exited_process_is_refused)
{
	struct process_request request = { .slot = book_of(process)->slot };

	thread_exit(main_thread, 0);

	cr_expect_eq(clear_end(process), -ESRCH);
	cr_expect_eq(reset_peak(&request), -ESRCH);
}
