// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Churn: allocations per traceback, and blocks freed before their thread entered another block. */
#include "target.h"

static const struct churn *churn_at(__u64 address)
{
	const struct traceback *traceback = traceback_at(address);

	cr_assert(traceback);
	return &traceback->churn;
}

#define expect_churn(churn_, allocations_, bytes_, temporary_, temporary_bytes_) \
	do { \
		const struct churn *c_ = churn_; \
		expect_same(c_->allocations, allocations_, "allocations"); \
		expect_same(c_->allocated_bytes, bytes_, "allocated_bytes"); \
		expect_same(c_->temporary, temporary_, "temporary"); \
		expect_same(c_->temporary_bytes, temporary_bytes_, "temporary_bytes"); \
	} while (0)

BOOK_TEST(churn, is_counted_by_traceback)
{
	stack_is(0x401000, 0x402000);
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);
	stack_is(0x401000, 0x403000);
	user_malloc(32, 0x3000);
	user_free(0x1000);

	expect_churn(churn_at(0x2000), 2, 24, 0, 0);
	expect_churn(churn_at(0x3000), 1, 32, 0, 0);
	expect(temporary_blocks, 0);
}

BOOK_TEST(churn, a_block_freed_next_is_temporary)
{
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);
	user_free(0x2000);
	user_free(0x1000);

	expect(temporary_blocks, 1);
	expect(temporary_bytes, 16);
	user_malloc(40, 0x3000);
	expect_churn(churn_at(0x3000), 3, 64, 1, 16);
}

BOOK_TEST(churn, a_block_that_another_thread_frees_is_not_temporary)
{
	user_malloc(8, 0x1000);
	thread_run(thread_start(process, 101));
	user_malloc(8, 0x2000);
	user_free(0x1000);

	expect(temporary_blocks, 0);
}

/* Another thread has freed the address and got it again meanwhile. */
BOOK_TEST(churn, a_block_of_another_thread_at_the_same_address_is_not_temporary)
{
	struct target_thread *other = thread_start(process, 101);

	user_malloc(8, 0x1000);
	thread_run(other);
	user_free(0x1000);
	user_malloc(8, 0x1000);
	thread_run(main_thread);
	user_free(0x1000);

	expect(temporary_blocks, 0);
}

BOOK_TEST(churn, the_old_block_of_a_realloc_is_not_temporary)
{
	user_malloc(8, 0x1000);
	user_realloc(0x1000, 16, 0x2000);
	expect(temporary_blocks, 0);

	user_free(0x2000);
	expect(temporary_blocks, 1);
	expect(temporary_bytes, 16);
}

BOOK_TEST(churn, a_failed_call_does_not_end_the_temporary_block)
{
	user_malloc(8, 0x1000);
	user_malloc(1 << 20, 0);
	user_free(0x1000);

	expect(temporary_blocks, 1);
}

BOOK_TEST(churn, a_dropped_block_is_not_counted)
{
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	user_malloc(8, 0x1000);
	user_malloc(16, 0x2000);

	expect_churn(churn_at(0x1000), 1, 8, 0, 0);
	expect_loss(blocks_dropped, 1);
}

BOOK_TEST(churn, peak_blocks_stay_when_blocks_are_freed)
{
	user_malloc(8, 0x1000);
	user_malloc(8, 0x2000);
	user_free(0x1000);
	user_malloc(8, 0x3000);
	user_free(0x3000);

	expect(peak_blocks, 2);
	expect(current_blocks, 1);
}
