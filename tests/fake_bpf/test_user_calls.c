// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause


#include "target.h"

/* Functions of user allocators: a row of user_calls[] says where their arguments are. */

#define POOL_DOMAIN DOMAIN_USER

enum {
	ROW_OTHER, /* what a probe without a row would read */
	ROW,
};

/* Positions of arguments, from 1; 0: no such argument. */
struct positions {
	__u32 size, count, pointer;
	__u32 size_bytes, count_bytes; /* widths; 0: 8 */
	__u64 bytes;		       /* the size if no argument has it */
};

static struct argument_source source_at(__u32 position, __u32 bytes, __u64 otherwise)
{
	static const unsigned short registers[] = {
		offsetof(struct pt_regs, di), offsetof(struct pt_regs, si), offsetof(struct pt_regs, dx),
		offsetof(struct pt_regs, cx), offsetof(struct pt_regs, r8), offsetof(struct pt_regs, r9),
	};

	if (!position)
		return (struct argument_source){ .kind = ARGUMENT_CONSTANT, .value = otherwise, .bytes = 8 };
	return (struct argument_source){ .kind = ARGUMENT_REGISTER, .bytes = bytes ?: 8, .base = registers[position - 1],
					 .index = ARGUMENT_NO_REGISTER };
}

static void row_set(struct positions at)
{
	user_calls[ROW_OTHER] = (struct user_call){ source_at(0, 8, 7777), source_at(0, 8, 1), source_at(0, 8, 0) };
	user_calls[ROW] = (struct user_call){ source_at(at.size, at.size_bytes, at.bytes),
					      source_at(at.count, at.count_bytes, 1), source_at(at.pointer, 8, 0) };
}

static void pool_enter(enum call_shape shape, __u64 sp, const __u64 argument[6])
{
	layer = LAYER_POOL;
	domain = POOL_DOMAIN;
	user_call = ROW;
	call_enter(shape, sp, argument);
	layer = LAYER_HEAP;
	domain = user_call = 0;
}

static void pool_leave(enum call_shape shape, __u64 sp, __u64 returned)
{
	layer = LAYER_POOL;
	domain = POOL_DOMAIN;
	user_call = ROW;
	leave(shape, sp, returned);
	layer = LAYER_HEAP;
	domain = user_call = 0;
}

#define pool_call(shape, returned, ...) \
	do { \
		pool_enter(shape, sp_at(1), ARGUMENTS(__VA_ARGS__)); \
		pool_leave(shape, sp_at(1), returned); \
	} while (0)

static void pool_free(__u64 pointer)
{
	row_set((struct positions){ .pointer = 2 });
	pool_enter(SHAPE_USER_FREE, sp_at(1), ARGUMENTS(1, pointer, 3, 4, 5, 6));
}

static void expect_object(__u64 address, __u64 size)
{
	const struct block *block = block_in(process, LAYER_POOL, address);

	cr_assert(block, "%#llx is not live", address);
	expect_same(block->size, size, "size");
	expect_same(block->domain, POOL_DOMAIN, "domain");
}

ACCOUNT_TEST(user_allocators, size_is_read_from_each_argument)
{
	for (__u32 i = 1; i <= 6; i++) {
		row_set((struct positions){ .size = i });
		pool_call(SHAPE_USER_ALLOC, 0x1000 * i, 11, 12, 13, 14, 15, 16);
		expect_object(0x1000 * i, 10 + i);
	}
	expect(allocations, 6);
}

ACCOUNT_TEST(user_allocators, count_is_read_from_another_argument)
{
	row_set((struct positions){ .count = 6, .size = 3 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 1, 2, 30, 4, 5, 60);
	expect_object(0x1000, 1800);
}

/* An int, with what the caller had in the upper half of its register. */
ACCOUNT_TEST(user_allocators, narrow_argument_is_read_as_32_bits)
{
	row_set((struct positions){ .size = 1, .size_bytes = 4 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 0xabcd00000018ULL);
	expect_object(0x1000, 24);

	row_set((struct positions){ .size = 1, .count = 2, .count_bytes = 4 });
	pool_call(SHAPE_USER_ALLOC, 0x2000, 1ULL << 33, 0xabcd00000003ULL);
	expect_object(0x2000, 3ULL << 33);
}

/* A realloc to 0 bytes would have freed the block. */
ACCOUNT_TEST(user_allocators, count_times_size_that_overflows_is_not_0_bytes)
{
	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	row_set((struct positions){ .count = 1, .size = 2, .pointer = 3 });
	pool_call(SHAPE_USER_REALLOC, 0, 1ULL << 32, 1ULL << 32, 0x1000);
	expect_object(0x1000, 24);
	expect(failed_calls, 1);
}

ACCOUNT_TEST(user_allocators, size_may_be_a_constant)
{
	row_set((struct positions){ .bytes = 192 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 1, 2, 3, 4, 5, 6);
	expect_object(0x1000, 192);

	row_set((struct positions){ .bytes = 100, .count = 2 });
	pool_call(SHAPE_USER_ALLOC, 0x2000, 1, 5);
	expect_object(0x2000, 500);
}

ACCOUNT_TEST(user_allocators, result_may_be_stored_through_a_pointer)
{
	__u64 stored = 0x1000;

	row_set((struct positions){ .pointer = 3, .size = 1 });
	pool_call(SHAPE_USER_OUT, 0, 24, 0, (__u64)&stored);
	expect_object(0x1000, 24);
	cr_expect(!block_in(process, LAYER_POOL, (__u64)&stored));

	stored = 0x2000;
	pool_call(SHAPE_USER_OUT, 0xffffffff0000000cULL, 24, 0, (__u64)&stored); /* an int */
	cr_expect(!block_in(process, LAYER_POOL, 0x2000));
	expect(failed_calls, 1);
	pool_call(SHAPE_USER_OUT, 0, 24, 0, 8);
	expect_loss(results_unreadable, 1);
}

ACCOUNT_TEST(user_allocators, free_reads_its_pointer_argument)
{
	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	pool_free(0x1000);
	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	expect(frees, 1);
	pool_free(0);
	expect(unknown_frees, 0);
	pool_free(0x1000);
	expect(unknown_frees, 1);
}

ACCOUNT_TEST(user_allocators, realloc_moves_its_block)
{
	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	row_set((struct positions){ .pointer = 2, .size = 4, .count = 3 });
	pool_call(SHAPE_USER_REALLOC, 0x2000, 1, 0x1000, 2, 40, 5, 6);

	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	expect_object(0x2000, 80);
	expect(frees, 1);

	pool_call(SHAPE_USER_REALLOC, 0, 1, 0x2000, 2, 400);
	expect_object(0x2000, 80); /* it has failed */
	pool_call(SHAPE_USER_REALLOC, 0, 1, 0x2000, 2, 0);
	cr_expect(!block_in(process, LAYER_POOL, 0x2000));
	expect(frees, 2);
}

/* (void *)-1, or an error number as the kernel's allocators return it. */
ACCOUNT_TEST(user_allocators, call_that_returns_an_error_records_no_block)
{
	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, -1ULL, 24);
	pool_call(SHAPE_USER_ALLOC, -12ULL, 24);
	expect(allocations, 0);
	expect(failed_calls, 2);

	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	row_set((struct positions){ .pointer = 2, .size = 1 });
	pool_call(SHAPE_USER_REALLOC, -12ULL, 48, 0x1000);
	expect_object(0x1000, 24);
}

/* While a realloc runs, another thread may get the old address. */
ACCOUNT_TEST(user_allocators, realloc_removes_its_old_block_when_it_begins)
{
	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	row_set((struct positions){ .pointer = 2, .size = 1 });
	pool_enter(SHAPE_USER_REALLOC, sp_at(1), ARGUMENTS(48, 0x1000));
	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	pool_leave(SHAPE_USER_REALLOC, sp_at(1), 0x3000);
	expect_object(0x3000, 48);
	expect_loss(blocks_replaced, 0);
}

/* The pool's chunk is malloc's block, and the first object begins at the same address. */
ACCOUNT_TEST(user_allocators, pool_chunk_is_also_a_malloc_block)
{
	row_set((struct positions){ .size = 1 });
	pool_enter(SHAPE_USER_ALLOC, sp_at(1), ARGUMENTS(24));
	enter(SHAPE_MALLOC, sp_at(5), 4096);
	leave(SHAPE_MALLOC, sp_at(5), 0x1000);
	pool_leave(SHAPE_USER_ALLOC, sp_at(1), 0x1000);

	expect_object(0x1000, 24);
	expect_live(0x1000, 4096);
	expect_same(block_at(0x1000)->domain, 0, "the chunk's domain");
	expect(nested_calls, 0);
	pool_free(0x1000);
	expect_live(0x1000, 4096);
}

/* The address where a CUSTOM_OUT call stores its result is not a block that the call resizes. */
ACCOUNT_TEST(user_allocators, realloc_frees_and_other_calls_do_not_in_a_thread_without_state)
{
	__u64 stored = 0;

	row_set((struct positions){ .size = 1 });
	pool_call(SHAPE_USER_ALLOC, 0x1000, 24);
	pool_call(SHAPE_USER_ALLOC, (__u64)&stored, 24);
	thread_run(thread_start(process, 101));
	fake.out_of_memory = true;
	row_set((struct positions){ .pointer = 1, .size = 2 });
	pool_enter(SHAPE_USER_OUT, sp_at(1), ARGUMENTS((__u64)&stored, 24));
	expect_object((__u64)&stored, 24);
	pool_enter(SHAPE_USER_REALLOC, sp_at(1), ARGUMENTS(0x1000, 24));
	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	expect_loss(threads_dropped, 2);
	fake.out_of_memory = false;
}

/* A pool that takes its memory from a heap: calls of both, counted apart. */

int pending_blocks(struct bpf_iter__task *ctx);

static void enter_in(enum layer of, enum call_shape shape, __u64 sp, __u64 first, __u64 second)
{
	layer = of;
	enter(shape, sp, first, second);
	layer = LAYER_HEAP;
}

static void leave_in(enum layer of, enum call_shape shape, __u64 sp, __u64 returned)
{
	layer = of;
	leave(shape, sp, returned);
	layer = LAYER_HEAP;
}

static void malloc_in(enum layer of, __u64 size, __u64 returned)
{
	enter_in(of, SHAPE_MALLOC, sp_at(1), size, 0);
	leave_in(of, SHAPE_MALLOC, sp_at(1), returned);
}

static void expect_live_in(enum layer of, __u64 address, __u64 size)
{
	const struct block *block = block_in(process, of, address);

	cr_expect(block && block->size == size, "%#llx is not live in layer %d", address, of);
}

/* The pool's first object begins at the address of the heap's block. */
ACCOUNT_TEST(layers, a_call_into_the_layer_below_is_recorded)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	enter_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(10), 4096, 0);
	leave_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(10), 0x1000);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live_in(LAYER_POOL, 0x1000, 24);
	expect_live_in(LAYER_HEAP, 0x1000, 4096);
	expect(allocations, 2);
	expect(nested_calls, 0);
	expect(current_bytes, 4120);
}

ACCOUNT_TEST(layers, a_call_into_either_layer_inside_both_is_nested)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	enter_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(10), 4096, 0);
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(20), 1, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(20), 0x5000);
	enter_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(20), 1, 0);
	leave_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(20), 0x6000);
	leave_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(10), 0x2000);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect(allocations, 2);
	expect(nested_calls, 2);
}

ACCOUNT_TEST(layers, a_call_into_the_layer_above_is_nested)
{
	enter_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(1), 24, 0);
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(10), 8, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(10), 0x2000);
	enter_in(LAYER_POOL, SHAPE_FREE, sp_at(10), 0x2000, 0);
	leave_in(LAYER_HEAP, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect(allocations, 1);
	expect(nested_calls, 2);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(layers, a_free_removes_the_block_of_its_own_layer)
{
	malloc_in(LAYER_POOL, 24, 0x1000);
	malloc_in(LAYER_HEAP, 4096, 0x1000);
	enter_in(LAYER_POOL, SHAPE_FREE, sp_at(1), 0x1000, 0);

	expect_live_in(LAYER_HEAP, 0x1000, 4096);
	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	enter_in(LAYER_HEAP, SHAPE_FREE, sp_at(1), 0x1000, 0);
	expect(frees, 2);
	expect(current_blocks, 0);
	expect(unknown_frees, 0);
	expect(temporary_blocks, 2);
}

/* A pool that returns its memory to the heap. */
ACCOUNT_TEST(layers, a_free_in_the_layer_below_inside_a_call_is_counted)
{
	malloc_in(LAYER_HEAP, 4096, 0x1000);
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	enter_in(LAYER_HEAP, SHAPE_FREE, sp_at(10), 0x1000, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x3000);

	expect(frees, 1);
	expect(nested_calls, 0);
}

/* The return address of a call on another stack must not be hijacked in any layer. */
ACCOUNT_TEST(layers, a_call_on_another_stack_is_declined_whatever_its_layer)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	main_thread->task.sas_ss_sp = (__u64)main_thread->alternate_stack;
	main_thread->task.sas_ss_size = sizeof(main_thread->alternate_stack);
	enter_in(LAYER_HEAP, SHAPE_MALLOC, alternate_sp_at(1), 8, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect(allocations, 1);
	expect_loss(calls_declined, 1);
}

ACCOUNT_TEST(layers, an_abandoned_call_is_dropped_by_a_call_of_another_layer)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(10), 24, 0);
	malloc_in(LAYER_HEAP, 8, 0x1000);

	expect(allocations, 1);
	expect_loss(calls_unreturned, 1);
}

/* One return address, one `ret`, two calls that end there. */
ACCOUNT_TEST(layers, a_tail_call_into_the_layer_below_records_two_blocks)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	site_offset = 100;
	jump(SHAPE_MALLOC, sp_at(1), 48);
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	site_offset = 0;
	if (!returns_are_probed())
		leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect_live_in(LAYER_POOL, 0x1000, 24);
	expect_live_in(LAYER_HEAP, 0x1000, 48);
	expect(allocations, 2);
}

static __u64 pending_nr(void)
{
	struct bpf_iter_meta meta = {};
	struct bpf_iter__task ctx = { .meta = &meta, .task = &main_thread->task };

	fake.seq_bytes = 0;
	pending_blocks(&ctx);
	return fake.seq_bytes / sizeof(struct pending_block);
}

static void enter_two_reallocs(void)
{
	malloc_in(LAYER_POOL, 24, 0x1000);
	malloc_in(LAYER_HEAP, 4096, 0x1000);
	enter_in(LAYER_POOL, SHAPE_REALLOC, sp_at(1), 0x1000, 32);
	enter_in(LAYER_HEAP, SHAPE_REALLOC, sp_at(10), 0x1000, 8192);
}

ACCOUNT_TEST(layers, the_loader_finds_pending_reallocs_of_all_layers)
{
	const struct pending_block *found = (const void *)fake.seq;

	enter_two_reallocs();
	expect_same(pending_nr(), 2, "pending");
	expect_same(block_key_layer(&found[0].key), LAYER_POOL, "layer");
	expect_same(block_key_image(&found[1].key), book_of(process)->image, "image");
	expect_same(found[1].block.size, 4096, "size");
	leave_in(LAYER_HEAP, SHAPE_REALLOC, sp_at(10), 0x2000);
	leave_in(LAYER_POOL, SHAPE_REALLOC, sp_at(1), 0x2000);

	expect_same(pending_nr(), 0, "pending");
	expect_live_in(LAYER_POOL, 0x2000, 32);
	expect_live_in(LAYER_HEAP, 0x2000, 8192);
	expect(frees, 2);
}

ACCOUNT_TEST(layers, a_thread_killed_in_two_reallocs_restores_both_blocks)
{
	enter_two_reallocs();
	thread_exit(main_thread, 9);
	process->signal.live.counter++;

	expect_live_in(LAYER_POOL, 0x1000, 24);
	expect_live_in(LAYER_HEAP, 0x1000, 4096);
	expect_loss(calls_unreturned, 2);
}

ACCOUNT_TEST(layers, an_exec_forgets_the_pending_calls_of_all_layers)
{
	enter_two_reallocs();
	thread_exec(main_thread);
	malloc_in(LAYER_POOL, 8, 0x1000);
	malloc_in(LAYER_HEAP, 16, 0x1000);

	expect(allocations, 2);
	expect(frees, 0);
}

/* ---- blocks that the allocator reports by USDT probes ---- */

static void report(__u64 address, __u64 size, __u64 count)
{
	layer = LAYER_POOL;
	domain = POOL_DOMAIN;
	user_report(address, size, count);
	layer = LAYER_HEAP;
	domain = 0;
}

static void report_free(__u64 address)
{
	layer = LAYER_POOL;
	user_report_free(address);
	layer = LAYER_HEAP;
}

ACCOUNT_TEST(user_allocators, reported_blocks_come_and_go_at_one_place)
{
	stack_is(0x401000, 0x402000);
	report(0x1000, 16, 4);
	expect_object(0x1000, 64);
	user_report(0x3000, 1, 1); /* in the heap's layer */
	expect_same(traceback_at(0x3000)->exact[0], 1, "the probe's place is exact");
	user_report_free(0x3000);
	report(0x2000, 0, 1);
	expect_object(0x2000, 0);
	report(0, 16, 1);
	expect(failed_calls, 1);
	report_free(0x1000);
	cr_expect(!block_in(process, LAYER_POOL, 0x1000));
	expect(current_blocks, 1);
	report_free(0x1000);
	expect(unknown_frees, 1);
}

/* A pool may pass its probe inside a function of it that is probed, too: the function's call counts. */
ACCOUNT_TEST(user_allocators, reported_block_inside_a_pending_call_counts_once)
{
	row_set((struct positions){ .size = 1 });
	pool_enter(SHAPE_USER_ALLOC, sp_at(1), ARGUMENTS(24));
	stack_is(0x401000, 0x402000, 0x403000);
	report(0x1000, 24, 1);
	pool_leave(SHAPE_USER_ALLOC, sp_at(1), 0x1000);
	expect_object(0x1000, 24);
	expect(current_blocks, 1);
	expect(nested_calls, 1);
}
