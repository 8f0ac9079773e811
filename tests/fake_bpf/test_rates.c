// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sampling rates that a budget changes while the program runs. */
#include "collect/build/sample_weight.h"
#include "target.h"

extern __u64 shared_sample_rate;

#define NONE (1ULL << 36)
#define COARSE 3 /* a rate by which nothing of the tests is sampled */

static const __u64 test_rates[SAMPLE_RATES] = { 0, 1, 1000, NONE };

BOOK_TEST(sample, rate_of_every_block_records_them_exactly)
{
	choose_rates(test_rates);
	user_malloc(100, 0x1000);
	user_malloc(0, 0x2000);
	expect_live(0x1000, 100);
	expect(current_blocks, 2);
	expect(current_bytes, 100);
	expect(sampled_blocks, 2);
	expect_same(coarsest_rate_of(book_of(process)->sample_rates_used), 0, "coarsest rate");
	user_free(0x1000);
	user_free(0x2000);

	expect(frees, 2);
	expect(freed_bytes, 100);
}

BOOK_TEST(sample, rate_that_changes_leaves_the_blocks_of_earlier_rates_their_weights)
{
	choose_rates(test_rates);
	user_malloc(100, 0x1000);
	rate_is(process, COARSE);
	user_malloc(100, 0x2000);
	expect_gone(0x2000);
	expect(current_bytes, 100);
	user_free(0x1000);
	user_free(0x2000);

	expect(current_blocks, 0);
	expect(freed_bytes, 100);
	expect(unknown_frees, 0);
	expect_same(coarsest_rate_of(book_of(process)->sample_rates_used), COARSE, "coarsest rate");
	rate_is(process, 0);
	user_malloc(100, 0x3000);
	expect_live(0x3000, 100);
	expect(current_bytes, 100);
	rate_is(process, 1);
	user_malloc(100, 0x4000);
	expect_same(book_of(process)->sample_rates_used, 1 << COARSE | 1 << 1, "rates");
	expect_same(coarsest_rate_of(book_of(process)->sample_rates_used), COARSE, "coarsest rate");
}

/* The rate that decided counts, not the one in force when the block is there. */
BOOK_TEST(sample, rate_that_changes_within_a_call_is_not_that_of_its_block)
{
	choose_rates(test_rates);
	enter(SHAPE_MALLOC, sp_at(1), 100);
	rate_is(process, COARSE);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect_live(0x1000, 100);
	expect_same(block_at(0x1000)->rate, 0, "rate");
	expect(current_blocks, 1);
	rate_is(process, 1);
	enter(SHAPE_MALLOC, sp_at(1), 10000);
	rate_is(process, 0);
	leave(SHAPE_MALLOC, sp_at(1), 0x8000);
	expect_same(block_at(0x8000)->rate, 1, "rate");
}

/* A distance drawn for a coarse rate would hide the next blocks. */
BOOK_TEST(sample, rate_that_changes_has_a_distance_of_its_own)
{
	choose_rates(test_rates);
	rate_is(process, COARSE);
	user_malloc(100, 0x1000);
	expect_gone(0x1000);
	rate_is(process, 1);
	user_malloc(1000, 0x2000);
	expect_live(0x2000, 1000);
}

BOOK_TEST(sample, rate_of_all_processes_applies_where_probes_are_shared)
{
	choose_rates(test_rates);
	shared_sample_rate = COARSE;
	user_malloc(100, 0x1000);
	expect_live(0x1000, 100);
	book_of(process)->follows = 1;
	user_malloc(100, 0x2000);
	expect_gone(0x2000);
	shared_sample_rate = 0;
	user_malloc(100, 0x3000);
	expect_live(0x3000, 100);
	shared_sample_rate = 1;
	rate_is(process, COARSE);
	user_malloc(100, 0x4000);
	expect_gone(0x4000);
	shared_sample_rate = 0;
}

/* The old block is of one rate, the new one of another; a realloc that fails puts the old one back as it was. */
BOOK_TEST(sample, rate_of_a_block_goes_with_it_through_realloc)
{
	choose_rates(test_rates);
	user_malloc(100, 0x1000);
	rate_is(process, 1);
	user_realloc(0x1000, 10000, 0);
	expect_same(block_at(0x1000)->rate, 0, "rate");
	expect(current_bytes, 100);
	user_realloc(0x1000, 10000, 0x2000);
	expect_same(block_at(0x2000)->rate, 1, "rate");
	rate_is(process, COARSE);
	user_realloc(0x2000, 10, 0x3000);

	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
}

/* Rates that change at random, which must leave nothing behind. */
BOOK_TEST(sample, rates_that_change_leave_nothing_behind)
{
	static const __u64 rates[SAMPLE_RATES] = { 0, 200, 1000, 5000 };
	__u64 seed = 11;

	choose_rates(rates);
	for (int i = 0; i < 2000; i++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		rate_is(process, seed >> 60 & (SAMPLE_RATES - 1));
		user_malloc(seed >> 32 & 1023, 0x1000 + 0x400 * (__u64)(i % 500));
		if (i >= 400)
			user_free(0x1000 + 0x400 * (__u64)((i - 400) % 500));
	}
	books_check();
	for (int i = 0; i < 500; i++)
		user_free(0x1000 + 0x400 * (__u64)i);
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect_same(block_cnt(), 0, "blocks");
}
