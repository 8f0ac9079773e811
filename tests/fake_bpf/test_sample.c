// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <bpf/bpf_helpers.h>
#include <math.h>

#include "collect/build/sample_weight.h"
#include "target.h"

/* Which blocks are recorded where not all are, and that nothing is left of them. */

__u64 draw_distance(__u64 mean);
__u64 bytes_stood_for(__u64 size, __u64 mean);

#define FOLLOWED 64 /* calls of a site */
#define ALL 1	    /* --sample: nearly every block of 64 bytes has a sample then */
#define NONE (1ULL << 36)

static void sample(__u64 bytes)
{
	choose_blocks((struct choice){ .sample_bytes = bytes });
}

/* ---- arithmetic ---- */

static void expect_log(__u32 random)
{
	double u = (2.0 * random + 1) / 8589934592.0, wanted = -log(u) * 4294967296.0, got;

	fake.random_is = &random;
	got = draw_distance(1ULL << 32) - 1.0; /* the logarithm with 32 bits behind the point */
	cr_assert(fabs(got - wanted) <= 1e-5 * wanted + 1, "-log of %.12f is %.1f, not %.1f", u, got, wanted);
}

ACCOUNT_TEST(sample, distances_are_computed_as_logarithms)
{
	sample(1000);
	for (int bit = 0; bit < 32; bit++) {
		expect_log(1u << bit);
		expect_log((1u << bit) - 1);
		expect_log(~(1u << bit));
		expect_log(-(1u << bit));
	}
	for (__u32 i = 0; i < 1000000; i++)
		expect_log(i * 4294967291u + i);
}

/* The random number makes the distance the mean itself; some means are no multiples of 2^16. */
ACCOUNT_TEST(sample, distances_have_the_requested_mean)
{
	static const __u64 means[] = { 1, 1000, 524288, 700000001, 1ULL << 36 };
	__u32 random = 0x5e2d58d8; /* -log is 0.99999999… */

	fake.random_is = &random;
	for (unsigned int i = 0; i < sizeof(means) / sizeof(*means); i++) {
		__u64 distance;

		sample(means[i]);
		distance = draw_distance(means[i]);
		cr_expect(fabs(distance - means[i] * 1.0) <= 1 + means[i] * 1e-5, "%llu of %llu", distance, means[i]);
	}
	fake.random_is = NULL;
}

static void expect_stood_for(__u64 size, __u64 mean)
{
	double n = size ? size : 1, wanted = n / -expm1(-n / mean);
	double got = bytes_stood_for(size, mean) / 65536.0;

	cr_assert(fabs(got - wanted) <= 1e-5 * wanted, "%llu bytes of %llu: %f, not %f", size, mean,
		  got, wanted);
}

ACCOUNT_TEST(sample, weights_are_the_inverse_of_the_probability)
{
	static const __u64 means[] = { 1, 7, 4096, 524288, 700000001, 1ULL << 36 };

	for (unsigned int i = 0; i < sizeof(means) / sizeof(*means); i++) {
		sample(means[i]);
		expect_stood_for(0, means[i]);
		for (double n = 1; n < 1ULL << 44; n *= 1.01)
			expect_stood_for(n, means[i]);
	}
}

/* ---- one call ---- */

ACCOUNT_TEST(sample, block_much_larger_than_the_mean_is_recorded_with_its_size)
{
	sample(16);
	user_malloc(10000, 0x1000);
	expect_live(0x1000, 10000);
	expect(current_blocks, 1);
	expect(current_bytes, 10000);
	expect(sampled_blocks, 1);
	user_free(0x1000);

	expect_gone(0x1000);
	expect(current_blocks, 0);
	expect(frees, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(sample, block_that_is_not_chosen_is_not_recorded)
{
	sample(NONE);
	user_malloc(100, 0x1000);
	expect_gone(0x1000);
	user_free(0x1000);

	expect(allocations, 0);
	expect(frees, 0);
	expect(unknown_frees, 0);
	expect(failed_calls, 0);
	expect_loss(returns_unmatched, 0);
}

/* The distance to a sample counts the byte that it is. */
ACCOUNT_TEST(sample, may_be_the_last_byte_of_a_block)
{
	sample(1000);
	fake.random_is = &(const __u32){ 0x5e39679d }; /* -log is 0.9995: 1000 bytes to the next one */
	user_malloc(999, 0x1000);
	user_malloc(1, 0x2000);
	user_malloc(1000, 0x3000);
	fake.random_is = NULL;

	expect_gone(0x1000);
	expect_live(0x2000, 1);
	expect_live(0x3000, 1000);
}

static unsigned int hijacked(unsigned int calls)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < calls; i++) {
		enter(SHAPE_MALLOC, sp_at(1), 50);
		nr += *(__u64 *)sp_at(1) == TRAMPOLINE;
		leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	}
	return nr;
}

/* Without sessions the kernel hijacks it before it asks. */
ACCOUNT_TEST(sample, call_that_is_not_chosen_has_no_return_probe_in_a_session)
{
	if (!calls_are_sessions())
		return;
	sample(NONE);
	expect_same(hijacked(1000), FOLLOWED, "returns");
	expect_loss(returns_unmatched, 0);
}

ACCOUNT_TEST(sample, follows_the_first_calls_of_each_image)
{
	if (!calls_are_sessions())
		return;
	sample(NONE);
	hijacked(1000);
	thread_exec(main_thread);
	expect_same(hijacked(1000), FOLLOWED, "returns");
}

static bool is_blocks_asked;

static void before_map(const void *map)
{
	is_blocks_asked |= map == &blocks || map == &dropped_blocks || map == &process_slots;
}

ACCOUNT_TEST(sample, free_of_a_block_that_is_not_chosen_reads_no_hash_map)
{
	sample(NONE);
	user_malloc(100, 0x1000);
	is_blocks_asked = false;
	fake.before_map = before_map;
	user_free(0x1000);
	fake.before_map = NULL;
	cr_expect(!is_blocks_asked);
}

/* A call that is not followed leaves it open what its thread did last. */
ACCOUNT_TEST(sample, block_is_not_temporary_after_a_later_block_that_is_not_chosen)
{
	choose_blocks((struct choice){ .min_size = 100 });
	user_malloc(100, 0x1000);
	user_malloc(99, 0x2000);
	user_free(0x1000);
	user_malloc(100, 0x3000);
	user_free(0x3000);

	expect(temporary_blocks, 1);
}

#define SHORT_LIVES 4000

/* Each is as likely to begin shortly before a sample as any. */
ACCOUNT_TEST(sample, includes_threads_that_allocate_once)
{
	struct target_thread *thread = thread_start(process, 101);
	double p = 1 - exp(-1), sd = sqrt(SHORT_LIVES * p * (1 - p));
	__u64 sampled;

	sample(1000);
	nursery_use(0);
	fake_map_resize(&blocks, SHORT_LIVES);
	for (__u64 i = 1; i <= SHORT_LIVES; i++) {
		thread_run(thread);
		user_malloc(1000, i * 0x1000);
		thread_exit(thread, 0);
		process->signal.live.counter++;
	}
	sampled = book_of(process)->counter[COUNTER_sampled_blocks];
	cr_expect(fabs(sampled - SHORT_LIVES * p) < 4 * sd, "%llu samples, not %f ± %f", sampled,
		  SHORT_LIVES * p, sd);
}

/* ---- sizes ---- */

ACCOUNT_TEST(sample, size_is_compared_with_both_limits)
{
	choose_blocks((struct choice){ .min_size = 100, .max_size = 200 });
	user_malloc(99, 0x1000);
	user_malloc(100, 0x2000);
	user_calloc(2, 100, 0x3000);
	user_malloc(201, 0x4000);

	expect_gone(0x1000);
	expect_live(0x2000, 100);
	expect_live(0x3000, 200);
	expect_gone(0x4000);
	expect(current_blocks, 2);
	expect(current_bytes, 300);
	expect(sampled_blocks, 0);
}

ACCOUNT_TEST(sample, distance_does_not_count_sizes_that_are_excluded)
{
	choose_blocks((struct choice){ .sample_bytes = 1000, .min_size = 100 });
	fake.random_is = &(const __u32){ 0x5e2d58d8 }; /* 1000 bytes to the next one */
	user_malloc(100, 0x1000);
	user_malloc(99, 0x2000);
	user_malloc(898, 0x3000);
	user_malloc(99, 0x4000);
	user_malloc(100, 0x5000);
	fake.random_is = NULL;

	expect(sampled_blocks, 1);
	expect_live(0x5000, 100);
}

ACCOUNT_TEST(sample, mapping_is_chosen_only_by_its_size)
{
	choose_blocks((struct choice){ .sample_bytes = NONE, .min_size = 8192 });
	user_mmap(4096, 0x10000);
	user_mmap(8192, 0x20000);
	cr_expect(!block_in(process, LAYER_MAPPING, 0x10000));
	cr_expect(block_in(process, LAYER_MAPPING, 0x20000));
	expect(current_bytes, 8192);
	expect(sampled_blocks, 1);
	user_munmap(0x20000, 8192);

	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
}

ACCOUNT_TEST(sample, mapping_that_is_split_counts_twice)
{
	sample(NONE);
	user_mmap(3 * 4096, 0x10000);
	user_munmap(0x11000, 4096);
	expect(current_blocks, 2);
	expect(sampled_blocks, 2);
	user_munmap(0x10000, 3 * 4096);

	expect(current_blocks, 0);
	expect(sampled_blocks, 0);
}

ACCOUNT_TEST(sample, mapping_that_is_not_chosen_removes_the_blocks_that_it_covers)
{
	choose_blocks((struct choice){ .min_size = 8192 });
	user_mmap(16384, 0x20000);
	for (int i = 0; i < FOLLOWED; i++)
		user_mmap(4096, 0x90000);
	user_mmap(4096, 0x20000);
	cr_expect(!block_in(process, LAYER_MAPPING, 0x20000));
	cr_expect(block_in(process, LAYER_MAPPING, 0x21000));

	expect(current_bytes, 12288);
	expect(freed_bytes, 4096);
}

/* ---- realloc ---- */

ACCOUNT_TEST(sample, realloc_that_is_not_chosen_frees_the_old_block)
{
	choose_blocks((struct choice){ .min_size = 100 });
	hijacked(FOLLOWED + 1);
	user_malloc(100, 0x1000);
	user_realloc(0x1000, 50, 0x2000);

	expect_gone(0x1000);
	expect_gone(0x2000);
	expect(frees, 1);
	expect(allocations, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(sample, realloc_that_is_not_chosen_and_fails_keeps_the_old_block)
{
	choose_blocks((struct choice){ .max_size = 100 });
	user_malloc(100, 0x1000);
	user_realloc(0x1000, 500, 0);

	expect_live(0x1000, 100);
	expect(frees, 0);
	expect(failed_calls, 0);
}

ACCOUNT_TEST(sample, realloc_of_a_block_that_is_not_chosen_may_be_chosen)
{
	choose_blocks((struct choice){ .min_size = 100 });
	user_malloc(50, 0x1000);
	user_realloc(0x1000, 500, 0x2000);

	expect_live(0x2000, 500);
	expect(allocations, 1);
	expect(frees, 0);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(sample, realloc_is_followed_while_its_old_block_is_recorded)
{
	choose_blocks((struct choice){ .min_size = 100 });
	user_malloc(100, 0x1000);
	for (int i = 0; i < 2 * FOLLOWED; i++)
		user_realloc(0x7008, 50, 0x7008);
	user_realloc(0x1000, 50, 0x1000);

	expect_gone(0x1000);
	expect(frees, 1);
}

/* ---- calls in calls ---- */

static void calloc_nesting(__u64 size, __u64 address)
{
	enter(SHAPE_CALLOC, sp_at(1), 1, size);
	enter(SHAPE_MALLOC, sp_at(4), size + 16);
	leave(SHAPE_MALLOC, sp_at(4), address);
	leave(SHAPE_CALLOC, sp_at(1), address);
}

ACCOUNT_TEST(sample, call_nested_in_a_call_that_is_not_chosen_is_not_chosen)
{
	choose_blocks((struct choice){ .min_size = 100 });
	for (int i = 0; i < 2 * FOLLOWED; i++)
		calloc_nesting(90, 0x1000 + 128 * i);

	expect(allocations, 0);
	expect(nested_calls, 2 * FOLLOWED);
}

/* The first wanted block reveals the nesting; nested calls before it go unseen. */
ACCOUNT_TEST(sample, call_that_is_found_to_nest_late_is_counted_as_a_loss)
{
	choose_blocks((struct choice){ .min_size = 100 });
	for (int i = 0; i < FOLLOWED; i++)
		user_calloc(1, 50, 0x1000);
	calloc_nesting(90, 0x2000);
	calloc_nesting(200, 0x3000);
	calloc_nesting(90, 0x4000);
	calloc_nesting(200, 0x5000);

	expect_gone(0x4000);
	expect_loss(nestings_late, calls_are_sessions() ? 1 : 0);
	expect(allocations, calls_are_sessions() ? 3 : 2);
}

/* glibc's calls malloc, and then only. */
ACCOUNT_TEST(sample, realloc_of_null_is_followed_as_a_function_of_its_own)
{
	choose_blocks((struct choice){ .min_size = 100 });
	for (int i = 0; i < FOLLOWED; i++)
		user_realloc(0x7008, 50, 0x7008);
	enter(SHAPE_REALLOC, sp_at(1), 0, 90);
	enter(SHAPE_MALLOC, sp_at(4), 120);
	leave(SHAPE_MALLOC, sp_at(4), 0x1000);
	leave(SHAPE_REALLOC, sp_at(1), 0x1000);

	expect(allocations, 0);
	expect_loss(nestings_late, 0);
}

ACCOUNT_TEST(sample, call_that_is_not_chosen_and_never_returns_is_no_loss)
{
	sample(NONE);
	enter(SHAPE_MALLOC, sp_at(5), 8);
	enter(SHAPE_MALLOC, sp_at(4), 8);
	leave(SHAPE_MALLOC, sp_at(4), 0x1000);
	thread_exit(main_thread, 0);

	expect_loss(calls_unreturned, 0);
}

/* ---- what leaves without a free ---- */

ACCOUNT_TEST(sample, drop_of_a_block_is_paired_with_its_free)
{
	sample(ALL);
	nursery_use(0);
	fake_map_resize(&blocks, 1);
	fake_map_resize(&dropped_blocks, 1);
	user_malloc(10000, 0x1000);
	user_malloc(10000, 0x2000);
	user_malloc(10000, 0x3000);
	expect_loss(blocks_dropped, 2);
	expect_loss(drops_unnoted, 1);
	account_check();
	user_free(0x2000);
	user_free(0x3000);

	expect(dropped_frees, 1);
}

ACCOUNT_TEST(sample, address_that_is_allocated_again_stays_paired)
{
	sample(ALL);
	user_malloc(10000, 0x1000);
	user_malloc(20000, 0x1000);

	expect_live(0x1000, 20000);
	expect_loss(blocks_replaced, 1);
	account_check();
	user_free(0x1000);
	expect(current_blocks, 0);
}

/* Sampling rates that a budget changes while the program runs. */

extern __u64 shared_sample_rate;

#define COARSE 3 /* a rate by which nothing of the tests is sampled */

static const __u64 test_rates[SAMPLE_RATES] = { 0, 1, 1000, NONE };

ACCOUNT_TEST(sample, rate_of_every_block_records_them_exactly)
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

ACCOUNT_TEST(sample, rate_that_changes_leaves_the_blocks_of_earlier_rates_their_weights)
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
ACCOUNT_TEST(sample, rate_that_changes_within_a_call_is_not_that_of_its_block)
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
ACCOUNT_TEST(sample, rate_that_changes_has_a_distance_of_its_own)
{
	choose_rates(test_rates);
	rate_is(process, COARSE);
	user_malloc(100, 0x1000);
	expect_gone(0x1000);
	rate_is(process, 1);
	user_malloc(1000, 0x2000);
	expect_live(0x2000, 1000);
}

ACCOUNT_TEST(sample, rate_of_all_processes_applies_where_probes_are_shared)
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
ACCOUNT_TEST(sample, rate_of_a_block_goes_with_it_through_realloc)
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
ACCOUNT_TEST(sample, rates_that_change_leave_nothing_behind)
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
	account_check();
	for (int i = 0; i < 500; i++)
		user_free(0x1000 + 0x400 * (__u64)i);
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect_same(block_cnt(), 0, "blocks");
}
