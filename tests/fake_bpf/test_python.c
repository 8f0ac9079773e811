// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CPython's allocators: what their calls do to the account, and where blocks will be. */
#include "fake_python.h"

/* ---- small blocks ---- */

ACCOUNT_TEST(python, small_block_is_the_head_of_its_free_list)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	*free_list(1) = 0x5000;
	object_malloc(17);
	LIVE(0x5000, 17);
	*free_list(1) = 0x5020;
	object_malloc(32);
	LIVE(0x5020, 32);
	object_free(0x5000);
	GONE(0x5000);
	expect(allocations, 2);
	expect(frees, 1);
	expect(current_bytes, 32);
}

ACCOUNT_TEST(python, call_by_pointer_is_not_counted_at_the_jump)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	pass_place(ROW_MALLOC, (struct pt_regs){ .r14 = 17, .flags = ~ZF });
	expect(allocations, 0);
}

ACCOUNT_TEST(python, calloc_multiplies)
{
	python_begin_world(true);
	pool_use(pool_at(0), 5);
	pass_place(ROW_CALLOC, (struct pt_regs){ .si = 3, .dx = 30, .flags = ZF });
	LIVE((__u64)pool_at(0) + 48, 90);
}

ACCOUNT_TEST(python, class_without_a_pool_takes_a_free_one)
{
	python_begin_world(true);
	pool_make(pool_at(3), 2);
	arenas[1].freepools = (__u64)pool_at(3);
	pool_at(3)->freeblock = 0x6000;
	object_malloc(48);
	LIVE(0x6000, 48);
	object_malloc(49); /* of another class: the pool begins anew */
	LIVE((__u64)pool_at(3) + 48, 49);
}

ACCOUNT_TEST(python, without_free_pools_a_new_one_is_made_of_the_arena)
{
	python_begin_world(true);
	arenas[1].pool_address = (__u64)pool_at(4);
	object_malloc(512);
	LIVE((__u64)pool_at(4) + 48, 512);
}

ACCOUNT_TEST(python, block_of_a_new_arena_is_found_later)
{
	python_begin_world(true);
	usable_arenas = 0;
	object_malloc(40);
	expect(allocations, 0);
	raw_malloc(4000); /* the allocator's own */
	cr_expect(!heap_call(SHAPE_MALLOC, 4000, 0, 0x7000), "the allocator's own memory is recorded");
	pool_use(pool_at(2), 2);
	frames_make(0);
	*free_list(2) = (__u64)pool_at(2) + 96;
	object_malloc(41);
	LIVE((__u64)pool_at(2) + 48, 40);
	LIVE((__u64)pool_at(2) + 96, 41);
	expect_same(PYTHON_FRAME_CODE(traceback_of((__u64)pool_at(2) + 48)->pc[0]), 1, "code of its frame");
}

ACCOUNT_TEST(python, realloc_into_a_new_arena_counts_once)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 0);
	object_malloc(16);
	usable_arenas = 0;
	object_realloc(block, 40);
	object_malloc(40); /* its own */
	raw_malloc(4000); /* the allocator's own */
	pool_use(pool_at(2), 2);
	*free_list(2) = (__u64)pool_at(2) + 96;
	object_free(block); /* its own */
	LIVE((__u64)pool_at(2) + 48, 40);
	GONE(block);
	expect(allocations, 2);
	expect(frees, 1);
	expect(nested_calls, 2);
	expect_loss(python_blocks_unfound, 0);
}

ACCOUNT_TEST(python, block_of_a_new_arena_is_found_by_the_next_thread)
{
	struct target_thread *other = thread_start(process, 101);
	__u64 block = (__u64)pool_at(2) + 48;

	python_begin_world(true);
	usable_arenas = 0;
	object_malloc(40);
	pool_use(pool_at(2), 2);
	*free_list(2) = block + 48;
	thread_run(other);
	raw_malloc(700); /* may come at any time, without the GIL */
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	GONE(block);
	object_free(block);
	GONE(block);
	expect(allocations, 2);
	expect(frees, 1);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(python, raw_blocks_of_other_threads_are_recorded_while_an_arena_is_made)
{
	struct target_thread *other = thread_start(process, 101);

	python_begin_world(true);
	usable_arenas = 0;
	object_malloc(40);
	thread_run(other);
	raw_malloc(700);
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	LIVE(0x7000, 700);
}

ACCOUNT_TEST(python, block_that_is_not_found_later_is_a_loss)
{
	python_begin_world(true);
	usable_arenas = 0;
	object_malloc(40);
	object_malloc(60);
	expect_loss(python_blocks_unfound, 1);
	expect(allocations, 0);
}

/* ---- large ones, and the raw domain ---- */

ACCOUNT_TEST(python, large_block_is_what_the_heap_gives)
{
	python_begin_world(true);
	object_malloc(513);
	raw_malloc(513);
	cr_expect(heap_call(SHAPE_MALLOC, 513, 0, 0x9000), "not awaited");
	LIVE(0x9000, 513);
	expect_same(traceback_of(0x9000)->nframe, 1, "Python's frames");
	object_free(0x9000);
	pass_place(ROW_FREE, (struct pt_regs){ .bx = 0x9000, .flags = ZF }); /* of the raw domain */
	GONE(0x9000);
	expect(frees, 1);
	expect(nested_calls, 1);
}

ACCOUNT_TEST(python, empty_block_is_one_byte_of_the_heap)
{
	python_begin_world(true);
	object_malloc(0);
	cr_expect(heap_call(SHAPE_CALLOC, 1, 1, 0x9000), "not awaited");
	LIVE(0x9000, 0);
}

ACCOUNT_TEST(python, others_use_the_heap_unseen)
{
	python_begin_world(true);
	cr_expect(!heap_call(SHAPE_MALLOC, 40, 0, 0x9000), "awaited");
	raw_malloc(700);
	cr_expect(!heap_call(SHAPE_MALLOC, 701, 0, 0x9000), "another size");
	cr_expect(!heap_call(SHAPE_MALLOC, 700, 0, 0x9000), "too late");
	expect(allocations, 0);
}

/* ---- realloc ---- */

ACCOUNT_TEST(python, realloc_stays_if_it_wastes_less_than_a_quarter)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 3);
	object_malloc(64);
	object_realloc(block, 49);
	LIVE(block, 49);
	expect(allocations, 2);
	expect(frees, 1);
	*free_list(3) = block + 64;
	pool_use(pool_at(1), 2);
	object_realloc(block, 48);
	GONE(block);
	LIVE((__u64)pool_at(1) + 48, 48);
}

/* The memory before a block of the C library may look like a pool. */
ACCOUNT_TEST(python, number_beyond_the_arenas_is_none)
{
	static _Alignas(POOL) char elsewhere[POOL];
	__u64 block = (__u64)elsewhere + 48;

	python_begin_world(true);
	pool_make((struct pool *)elsewhere, 3);
	((struct pool *)elsewhere)->arenaindex = 2;
	arenas[2].address = (__u64)elsewhere;
	object_realloc(block, 40);
	cr_expect(heap_call(SHAPE_REALLOC, block, 40, 0x9000), "not awaited");
	LIVE(0x9000, 40);
}

ACCOUNT_TEST(python, calls_of_realloc_for_its_own_block_count_once)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 0);
	pool_use(pool_at(1), 5);
	object_malloc(10);
	object_realloc(block, 90);
	object_malloc(90);
	object_free(block);
	LIVE((__u64)pool_at(1) + 48, 90);
	expect(allocations, 2);
	expect(frees, 1);
	expect(nested_calls, 2);
	object_realloc(0, 16);
	object_malloc(16);
	LIVE(block, 16);
	expect(allocations, 3);
	expect(nested_calls, 3);
}

ACCOUNT_TEST(python, realloc_grows_into_the_heap_and_there)
{
	static _Alignas(POOL) char heap[4 * POOL];
	__u64 block = (__u64)pool_at(0) + 48, large = (__u64)heap + POOL + 16;

	python_begin_world(true);
	pool_use(pool_at(0), 9);
	object_malloc(150);
	object_realloc(block, 600);
	heap_call(SHAPE_MALLOC, 600, 0, large);
	object_free(block);
	GONE(block);
	LIVE(large, 600);
	((struct pool *)(heap + POOL))->arenaindex = 5; /* no arena has this number */
	object_realloc(large, 700);
	heap_call(SHAPE_REALLOC, large, 700, large + 16);
	GONE(large);
	LIVE(large + 16, 700);
	expect(unknown_frees, 0);
	expect(current_bytes, 700);
}

/* ---- blocks that libraries report ---- */

static void track(__u64 address, __u64 size)
{
	pass_place(ROW_TRACK, (struct pt_regs){ .di = 7, .si = address, .dx = size });
}

static void untrack(__u64 address)
{
	pass_place(ROW_UNTRACK, (struct pt_regs){ .di = 7, .si = address });
}

ACCOUNT_TEST(python, block_of_a_library_is_the_size_that_it_tells)
{
	python_begin_world(true);
	track(0x9000, 70000);
	LIVE(0x9000, 70000);
	expect_same(PYTHON_FRAME_CODE(traceback_of(0x9000)->pc[0]), 1, "code of its frame");
	cr_expect(!heap_call(SHAPE_MALLOC, 70000, 0, 0xa000), "awaited");
	track(0x9000, 20);
	LIVE(0x9000, 20);
	expect(current_bytes, 20);
	untrack(0x9000);
	GONE(0x9000);
	expect(unknown_frees, 0);
}

ACCOUNT_TEST(python, block_of_a_library_is_no_code_object)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	object_malloc(20);
	untrack((__u64)&codes[0]);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]), 1, "code");
	expect(unknown_frees, 1);
	track(0, 20);
	expect(allocations, 2);
}

/* ---- what is not known ---- */

ACCOUNT_TEST(python, calls_before_its_layout_is_known_are_a_loss)
{
	python_begin_world(false);
	object_malloc(20);
	expect_loss(python_calls_early, 1);
	expect(allocations, 0);
}

ACCOUNT_TEST(python, calls_after_an_exec_are_a_loss_until_the_new_layout_is_known)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	thread_exec(main_thread);
	object_malloc(20);
	expect_loss(python_calls_early, 1);
	python_tell();
	object_malloc(20);
	LIVE((__u64)pool_at(0) + 48, 20);
}

static void in_interpreter(__u32 how, const void *state)
{
	struct python_process *told = &book_of(process)->python;

	main_interpreter = (__u64)state;
	thread_state.interpreter = main_interpreter;
	told->in_interpreter = how;
	told->state = 0;
	told->used_pools -= how == 1 ? (__u64)state : *(const __u64 *)state;
	told->usable_arenas = 0;
}

ACCOUNT_TEST(python, pools_may_be_in_the_interpreter)
{
	static __u64 state[2];

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	in_interpreter(1, state);
	object_malloc(20);
	LIVE((__u64)pool_at(0) + 48, 20);
	thread_state.interpreter = 5;
	object_malloc(20);
	expect_loss(python_interpreters, 1);
	expect(allocations, 1);
}

ACCOUNT_TEST(python, pools_may_be_where_the_interpreter_says)
{
	static __u64 state[2];

	python_begin_world(true);
	state[0] = 0x1000;
	pool_use(pool_at(0), 1);
	in_interpreter(2, state);
	object_malloc(20);
	LIVE((__u64)pool_at(0) + 48, 20);
}

ACCOUNT_TEST(python, arguments_that_cannot_be_read_are_a_loss)
{
	python_begin_world(true);
	python_calls[ROW_MALLOC].size.kind = ARGUMENT_MEMORY;
	object_malloc(8);
	expect_loss(python_calls_unread, 1);
}

ACCOUNT_TEST(python, argument_may_be_an_address)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	python_calls[ROW_MALLOC].size = (struct argument_source){
		.kind = ARGUMENT_ADDRESS, .bytes = 8, .value = 3, .scale = 4,
		.base = offsetof(struct pt_regs, r14), .index = offsetof(struct pt_regs, r14),
	};
	object_malloc(4);
	LIVE((__u64)pool_at(0) + 48, 23);
}
