// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A pool that takes its memory from a heap: calls of both, counted apart. */
#include "target.h"

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
BOOK_TEST(layers, a_call_into_the_layer_below_is_recorded)
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

BOOK_TEST(layers, a_call_into_either_layer_inside_both_is_nested)
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

BOOK_TEST(layers, a_call_into_the_layer_above_is_nested)
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

BOOK_TEST(layers, a_free_removes_the_block_of_its_own_layer)
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
BOOK_TEST(layers, a_free_in_the_layer_below_inside_a_call_is_counted)
{
	malloc_in(LAYER_HEAP, 4096, 0x1000);
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	enter_in(LAYER_HEAP, SHAPE_FREE, sp_at(10), 0x1000, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x3000);

	expect(frees, 1);
	expect(nested_calls, 0);
}

/* The return address of a call on another stack must not be hijacked in any layer. */
BOOK_TEST(layers, a_call_on_another_stack_is_declined_whatever_its_layer)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 24, 0);
	main_thread->task.sas_ss_sp = (__u64)main_thread->alternate_stack;
	main_thread->task.sas_ss_size = sizeof(main_thread->alternate_stack);
	enter_in(LAYER_HEAP, SHAPE_MALLOC, alternate_sp_at(1), 8, 0);
	leave_in(LAYER_POOL, SHAPE_MALLOC, sp_at(1), 0x1000);

	expect(allocations, 1);
	expect_loss(calls_declined, 1);
}

BOOK_TEST(layers, an_abandoned_call_is_dropped_by_a_call_of_another_layer)
{
	enter_in(LAYER_POOL, SHAPE_MALLOC, sp_at(10), 24, 0);
	malloc_in(LAYER_HEAP, 8, 0x1000);

	expect(allocations, 1);
	expect_loss(calls_unreturned, 1);
}

/* One return address, one `ret`, two calls that end there. */
BOOK_TEST(layers, a_tail_call_into_the_layer_below_records_two_blocks)
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

BOOK_TEST(layers, the_loader_finds_pending_reallocs_of_all_layers)
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

BOOK_TEST(layers, a_thread_killed_in_two_reallocs_restores_both_blocks)
{
	enter_two_reallocs();
	thread_exit(main_thread, 9);
	process->signal.live.counter++;

	expect_live_in(LAYER_POOL, 0x1000, 24);
	expect_live_in(LAYER_HEAP, 0x1000, 4096);
	expect_loss(calls_unreturned, 2);
}

BOOK_TEST(layers, an_exec_forgets_the_pending_calls_of_all_layers)
{
	enter_two_reallocs();
	thread_exec(main_thread);
	malloc_in(LAYER_POOL, 8, 0x1000);
	malloc_in(LAYER_HEAP, 16, 0x1000);

	expect(allocations, 2);
	expect(frees, 0);
}
