// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Python's view of a process while the probes of the heap are shared by all processes. */
#include "fake_python.h"
#include "shared/links_state.h"

extern __u64 links_state, python_codes_held, python_codes_most;
extern volatile struct settings settings; /* see bpf_alloc.c */

/* The loader begins the view. Returns false without sessions, which the view needs. */
static bool begin_view(void)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	settings.has_own_links = true;
	book_of(process)->python_memory = book_of(process)->memory;
	return calls_are_sessions();
}

BOOK_TEST(python_shared, the_heap_is_not_recorded)
{
	if (!begin_view())
		return;
	user_malloc(100, 0x1000);
	user_calloc(3, 30, 0x2000);
	user_realloc(0x1000, 200, 0x3000);
	user_free(0x3000);
	expect(allocations, 0);
	expect(unknown_frees, 0);
	expect(nested_calls, 0);
	object_malloc(20);
	user_mmap(4096, 0x100000);
	LIVE((__u64)pool_at(0) + 48, 20);
	expect(allocations, 2);
}

BOOK_TEST(python_shared, a_call_that_began_before_is_not_recorded)
{
	if (!begin_view())
		return;
	book_of(process)->python_memory = 0;
	enter(SHAPE_MALLOC, sp_at(1), 100);
	book_of(process)->python_memory = book_of(process)->memory;
	leave(SHAPE_MALLOC, sp_at(1), 0x1000);
	expect(allocations, 0);
	expect_gone(0x1000);
}

/* Whichever link is the newer one: its program runs first. */
BOOK_TEST(python_shared, raw_blocks_are_python_s_at_a_function_with_both_probes)
{
	if (!begin_view())
		return;
	raw_malloc(700);
	enter(SHAPE_MALLOC, sp_at(2), 700);
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	leave(SHAPE_MALLOC, sp_at(2), 0x7000);
	LIVE(0x7000, 700);
	expect(allocations, 1);
	expect(nested_calls, 0);
}

BOOK_TEST(python_shared, its_probes_count_whatever_links_others_have)
{
	if (!begin_view())
		return;
	while (LINKS_PHASE(links_state) != LINKS_OWN)
		links_state++;
	object_malloc(20);
	raw_malloc(700);
	cr_expect(heap_call(SHAPE_MALLOC, 700, 0, 0x7000), "not awaited");
	expect(allocations, 2);
}

BOOK_TEST(python_shared, a_forked_child_begins_so)
{
	struct target_thread *child;

	if (!begin_view())
		return;
	book_of(process)->follows = 1;
	object_malloc(20);
	child = thread_fork(200);
	thread_run(child);
	user_malloc(100, 0x1000);
	expect_in(child->process, allocations, 0);
	user_free((__u64)pool_at(0) + 48);
	expect_in(child->process, unknown_frees, 0);
	book_of(child->process)->python_memory = 0; /* the loader cannot record its objects */
	user_malloc(100, 0x2000);
	expect_in(child->process, allocations, 1);
}

BOOK_TEST(python_shared, the_next_program_does_not)
{
	if (!begin_view())
		return;
	thread_exec(main_thread);
	user_malloc(100, 0x1000);
	expect_live(0x1000, 100);
}

BOOK_TEST(python_shared, a_process_has_a_share_of_the_code_objects)
{
	__u64 block = (__u64)pool_at(0) + 48;

	begin_view();
	frames_make(2);
	python_codes_most = 1;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[0]), 1, "the first code");
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[1]), PYTHON_CODE_UNKNOWN, "the second code");
	expect_loss(python_codes_missing, 1);
	expect_same(python_codes_held, 1, "code objects");
	object_free((__u64)&codes[0]);
	expect(unknown_frees, 1);
	expect_same(python_codes_held, 0, "code objects");
	frames_make(1);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(python_codes_held, 1, "code objects");
	cr_expect(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]));
}
