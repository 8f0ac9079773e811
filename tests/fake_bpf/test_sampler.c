// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Processes that sample their own heap, and report it at probes: what enters the account, and what leaves them. */
#include "target.h"
#include <bpf/bpf_helpers.h>
#include <stdint.h>

#define A 0x10000
#define B 0x20000
#define C 0x30000

static void expect_nothing_left(void)
{
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect_same(block_cnt(), 0, "blocks");
}

ACCOUNT_TEST(sampler, sample_counts_as_what_it_stands_for)
{
	user_sample(A, 100, 5000);
	expect_live(A, 100);
	expect(current_bytes, 5000);
	expect(current_blocks, 50);
	expect(sampled_blocks, 1);
	expect_same(block_at(A)->weight, 5000, "weight");
	user_sample_free(A);
	expect(freed_bytes, 5000);
	expect(frees, 50);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, traceback_starts_at_the_probe)
{
	stack_is(0x401000, 0x402000, 0x403000);
	user_sample(A, 1, 1);
	cr_assert(traceback_at(A));
	expect_same(traceback_at(A)->nframe, 3, "frames");
	expect_same(traceback_at(A)->pc[0], 0x401000, "the first one");
	expect_same(traceback_at(A)->exact[0], 1, "the exact ones");
}

ACCOUNT_TEST(sampler, frees_of_others_free_nothing)
{
	user_sample(A, 100, 5000);
	user_sample_free(B);
	user_sample_free(0);
	expect(unknown_frees, 1); /* of B */
	expect(frees, 0);
	user_sample_free(A);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, zero_bytes_stand_for_blocks_only)
{
	user_sample(A, 0, 7);
	expect(current_bytes, 0);
	expect(current_blocks, 7);
	user_sample_free(A);
	expect_nothing_left();
}

/* ---- beside probes on malloc ---- */

ACCOUNT_TEST(sampler, other_blocks_of_the_heap_stay_out)
{
	user_sample(A, 100, 5000);
	user_malloc(64, B);
	user_calloc(2, 8, C);
	expect_gone(B);
	expect_gone(C);
	user_free(B);
	user_free(C);
	expect(unknown_frees, 0);
	expect(allocated_bytes, 5000);
}

ACCOUNT_TEST(sampler, blocks_from_before_the_first_sample_stand_for_themselves)
{
	user_malloc(64, A);
	user_malloc(32, B);
	user_malloc(16, C);
	user_sample(0x40000, 100, 5000);
	expect(current_bytes, 5000 + 64 + 32 + 16);
	user_free(A);
	user_realloc(B, 1000, 0x50000);
	expect_gone(B);
	expect_gone(0x50000);
	expect(current_bytes, 5000 + 16);
	user_free(C);
	user_sample_free(0x40000);
	expect_nothing_left();
}

/* The sampler's own malloc is probed for other processes: it reports the block before it returns. */
ACCOUNT_TEST(sampler, block_of_a_call_that_is_under_way_is_told_once)
{
	enter(SHAPE_MALLOC, sp_at(1), 100);
	user_sample(A, 100, 5000);
	leave(SHAPE_MALLOC, sp_at(1), A);
	expect(current_bytes, 5000);
	user_free(A);
	user_sample_free(A);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, sampled_block_moves_in_realloc)
{
	user_sample(A, 100, 5000);
	enter(SHAPE_REALLOC, sp_at(1), A, 200);
	user_sample_free(A);
	user_sample(B, 200, 6000);
	leave(SHAPE_REALLOC, sp_at(1), B);
	expect_gone(A);
	expect(current_bytes, 6000);
	user_sample_free(B);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, mappings_are_recorded_as_ever)
{
	user_sample(A, 100, 5000);
	user_mmap(8192, 0x7000000);
	expect(current_bytes, 5000 + 8192);
	user_munmap(0x7000000, 8192);
	expect(current_bytes, 5000);
}

ACCOUNT_TEST(sampler, is_another_one_after_exec)
{
	user_sample(A, 100, 5000);
	thread_exec(main_thread);
	expect(current_bytes, 0);
	user_malloc(64, B);
	expect(current_bytes, 64);
	expect_live(B, 64);
}

ACCOUNT_TEST(sampler, stays_when_traces_are_cleared)
{
	user_sample(A, 100, 5000);
	clear_begin(process);
	clear_end(process);
	user_malloc(64, B);
	expect(current_bytes, 0);
	user_sample_free(A);
	user_sample(C, 10, 10);
	expect(current_bytes, 10);
}

ACCOUNT_TEST(sampler, sizes_may_be_limited)
{
	choose_blocks((struct choice){ .min_size = 50, .max_size = 200 });
	user_sample(A, 49, 5000);
	user_sample(B, 50, 5000);
	user_sample(C, 201, 5000);
	expect(current_bytes, 5000);
	expect_live(B, 50);
	user_sample_free(A);
	user_sample_free(B);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, sample_that_replaces_another_one_is_a_loss)
{
	user_sample(A, 100, 5000);
	user_sample(A, 300, 6000);
	expect_loss(blocks_replaced, 1);
	expect(current_bytes, 6000);
}

ACCOUNT_TEST(sampler, sample_whose_free_is_not_reported_is_allocated_and_does_not_live)
{
	user_sample_lost(A, 100, 5000);
	user_sample_lost(A, 300, 6000);
	expect(allocated_bytes, 11000);
	expect_loss(blocks_replaced, 0);
	expect_nothing_left();
}

ACCOUNT_TEST(sampler, frees_that_match_no_sample_are_counted)
{
	choose_blocks((struct choice){ .min_size = 50 });
	user_sample_free(B);
	user_sample(A, 100, 5000);
	user_sample_free(A);
	user_sample(C, 49, 5000);
	user_sample_free(C);
	expect(unknown_frees, 2);
	expect(reported_samples, 2);
	expect(skipped_samples, 1);
	expect(frees, 50);
}

/* ---- weights ---- */

ACCOUNT_TEST(sampler, impossible_weights_are_refused)
{
	user_sample(A, 100, 0);
	user_sample(B, 100, 101 + (1ULL << 40));
	user_sample(C, 100, ~0ULL);
	expect_loss(samples_refused, 3);
	expect(allocations, 0);
	user_sample(A, 100, 100 + (1ULL << 40));
	expect_loss(samples_refused, 3);
	expect(current_bytes, 100 + (1ULL << 40));
}

/* A weight below the size: samples in the block × the mean distance. On average what was reported enters. */
static void expect_share(__u64 size, __u64 weight)
{
	__u64 entered = 0;

	for (int i = 0; i < 4000; i++) {
		user_sample(A, size, weight);
		entered += block_at(A) != NULL;
		user_sample_free(A);
	}
	cr_expect(entered * 1.0 * size > 3600.0 * weight && entered * 1.0 * size < 4400.0 * weight,
		  "%llu of 4000 of %llu bytes and %llu told", entered, size, weight);
}

ACCOUNT_TEST(sampler, weights_below_the_size_are_right_on_average, .timeout = 600)
{
	expect_share(1000, 600);
	expect_share(3 << 20, 1 << 20);
	expect_share(1ULL << 40, 1ULL << 39);
	expect_nothing_left();
}

/* ---- where the values are ---- */

static void tell_at(struct argument_source size)
{
	const struct argument_source by_register[] = {
		{ .kind = ARGUMENT_REGISTER, .bytes = 8, .base = offsetof(struct pt_regs, di),
		  .index = ARGUMENT_NO_REGISTER },
		{ .kind = ARGUMENT_REGISTER, .bytes = 8, .base = offsetof(struct pt_regs, dx),
		  .index = ARGUMENT_NO_REGISTER },
	};

	user_call = 1;
	usdt_calls[1] = (struct usdt_call){ { by_register[0], size, by_register[1] } };
}

static void expect_size(struct argument_source source, __u64 si, __u64 wanted)
{
	tell_at(source);
	user_sample(A, si, wanted + 1000);
	cr_assert(block_at(A), "nothing was recorded");
	expect_same(block_at(A)->size, wanted, "size");
	user_sample_free(A);
}

#define NO_REGISTERS .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER
#define SI .base = offsetof(struct pt_regs, si), .index = ARGUMENT_NO_REGISTER

ACCOUNT_TEST(sampler, values_are_found_where_the_note_says)
{
	static const __u64 words[] = { 0x1111, 0x80002222, 77 };

	expect_size((struct argument_source){ .value = 42, .bytes = 8, NO_REGISTERS }, 0xbad, 42);
	expect_size((struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = 4, SI }, 0xff00000123, 0x123);
	expect_size((struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = 1, SI }, 0x1234, 0x34);
	expect_size((struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = 2, .is_signed = 1, SI }, 0x7ff1234,
		    0x1234);
	expect_size((struct argument_source){ .kind = ARGUMENT_MEMORY, .bytes = 8, .value = 16, SI },
		    (uintptr_t)words, 77);
	expect_size((struct argument_source){ .kind = ARGUMENT_MEMORY, .bytes = 4, .value = 8, SI },
		    (uintptr_t)words, 0x80002222);
	expect_size((struct argument_source){ .kind = ARGUMENT_MEMORY, .bytes = 2, .value = 8, SI },
		    (uintptr_t)words, 0x2222);
	expect_size((struct argument_source){ .kind = ARGUMENT_MEMORY, .bytes = 8, .scale = 8,
					      .value = (uintptr_t)words, .base = ARGUMENT_NO_REGISTER,
					      .index = offsetof(struct pt_regs, si) }, 2, 77);
}

ACCOUNT_TEST(sampler, memory_that_cannot_be_read_is_a_loss)
{
	tell_at((struct argument_source){ .kind = ARGUMENT_MEMORY, .bytes = 8, SI });
	user_sample(A, 8, 1000);
	expect_loss(samples_refused, 1);
	expect(allocations, 0);
}

/* 0xfffe is -2, which is more than any block has: its weight is below its size. */
ACCOUNT_TEST(sampler, signed_values_are_extended)
{
	tell_at((struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = 2, .is_signed = 1, SI });
	for (int i = 0; i < 100; i++)
		user_sample(A, 0xfffe, 1000);
	expect(allocations, 0);
}
