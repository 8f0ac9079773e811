// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* --sample pools: which pools CPython's allocator takes, as samples. */
#include "fake_python.h"

extern volatile struct settings settings; /* see bpf_alloc.c */

static void begin_growth(void)
{
	settings.has_pools = true;
	python_begin_world(true);
}

BOOK_TEST(python_growth, pool_is_a_sample_that_stands_for_all_its_bytes)
{
	const struct block *block;

	begin_growth();
	pool_opens(0x8000, 3);
	LIVE(0x8000, 64);
	block = block_in(process, LAYER_POOL, 0x8000);
	expect_same(block->weight, POOL, "its weight");
	expect_same(PYTHON_FRAME_CODE(traceback_of(0x8000)->pc[0]), 1, "the code that needed it");
	expect(allocations, POOL / 64);
	expect(allocated_bytes, POOL);
	expect(current_blocks, POOL / 64);
	expect(current_bytes, POOL);
	expect(sampled_blocks, 1);
	pool_closes(0x8000);
	GONE(0x8000);
	expect(current_blocks, 0);
	expect(current_bytes, 0);
	expect(sampled_blocks, 0);
	expect(temporary_blocks, 0);
	expect(unknown_frees, 0);
}

BOOK_TEST(python_growth, pool_comes_and_goes_for_other_sizes)
{
	begin_growth();
	pool_opens(0x8000, 0);
	LIVE(0x8000, 16);
	pool_closes(0x8000);
	pool_opens(0x8000, 31);
	LIVE(0x8000, 512);
	expect(current_bytes, POOL);
	expect(sampled_blocks, 1);
}

BOOK_TEST(python_growth, older_pool_that_closes_is_an_unknown_free)
{
	begin_growth();
	pool_closes(0x9000);
	expect(unknown_frees, 1);
	expect(frees, 0);
}

BOOK_TEST(python_growth, impossible_size_class_is_counted_as_unread)
{
	begin_growth();
	pool_opens(0x8000, 32);
	pool_opens(0, 3);
	GONE(0x8000);
	expect_loss(python_calls_unread, 2);
}

BOOK_TEST(python_growth, limits_of_size_are_those_of_the_objects)
{
	choose_blocks((struct choice){ .min_size = 65, .max_size = 128 });
	begin_growth();
	pool_opens(0x8000, 3);
	pool_opens(0xa000, 4);
	pool_opens(0xb000, 8);
	GONE(0x8000);
	LIVE(0xa000, 80);
	GONE(0xb000);
}

BOOK_TEST(python_growth, large_block_stands_for_itself)
{
	begin_growth();
	raw_malloc(700);
	heap_call(SHAPE_MALLOC, 700, 0, 0x70000);
	LIVE(0x70000, 700);
	expect(current_blocks, 1);
	expect(current_bytes, 700);
	expect(sampled_blocks, 1);
	object_free(0x70000);
	expect(sampled_blocks, 0);
}

BOOK_TEST(python_growth, pool_of_another_interpreter_is_counted)
{
	struct python_process *python;

	begin_growth();
	python = &book_of(process)->python;
	python->in_interpreter = 1;
	thread_state.interpreter = main_interpreter + 8;
	pool_opens(0x8000, 3);
	GONE(0x8000);
	expect_loss(python_interpreters, 1);
}

BOOK_TEST(python_growth, code_that_ends_gives_its_address_to_other_code)
{
	begin_growth();
	pool_opens(0x8000, 3);
	pass_place(ROW_CODE_END, (struct pt_regs){ .di = (__u64)&codes[0] });
	pool_opens(0xa000, 3);
	expect_same(PYTHON_FRAME_CODE(traceback_of(0x8000)->pc[0]), 1, "the first code");
	expect_same(PYTHON_FRAME_CODE(traceback_of(0xa000)->pc[0]), 2, "the next code at the address");
	expect(unknown_frees, 0);
}
