// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The tracebacks of the interpreter, and the code objects that their frames run. */
#include "fake_python.h"

BOOK_TEST(python, traceback_is_the_interpreters)
{
	__u64 block = (__u64)pool_at(0) + 48;
	const struct python_code_record *record = (const void *)fake.record;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(3);
	object_malloc(20);
	expect_same(traceback_of(block)->nframe, 3, "frames");
	expect_same(traceback_of(block)->pc[0], PYTHON_FRAME_WORD(1, 0), "the first");
	expect_same(traceback_of(block)->pc[1], PYTHON_FRAME_WORD(2, 1), "the second");
	expect_same(traceback_of(block)->pc[2], PYTHON_FRAME_WORD(1, 2), "the third");
	expect_same(fake.record_cnt, 2, "code objects");
	cr_expect(record->id == 2 && record->first_line == 20 && record->pid == (__u32)process->pid);
	cr_expect(record->file.is_read && !memcmp(record->file_bytes, "app.py", 6));
	cr_expect(record->name.is_read && !memcmp(record->name_bytes, "work", 4));
	cr_expect(record->lines.is_read && record->lines.bytes == 5 && !memcmp(record->line_bytes, "lines", 5));
}

BOOK_TEST(python, state_of_a_thread_is_found_at_any_key)
{
	static const __u32 keys[] = { 0, 31, 32, 63, 200, 1023 };

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	for (int i = 0; i < 6; i++) {
		thread_state_key(true, keys[i]);
		thread_state_use((__u64)&thread_state);
		*free_list(1) = 0x5000 + 32 * i;
		object_malloc(20);
		expect_same(traceback_of(0x5000 + 32 * i)->nframe, 2, "frames");
	}
	expect_loss(python_states_missing, 0);
}

BOOK_TEST(python, traceback_of_a_thread_without_state_is_a_loss)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	thread_state_key(false, 40); /* Python begins: no thread has one yet */
	object_malloc(20);
	expect_loss(python_states_missing, 0);
	thread_state_key(true, 40);
	*free_list(1) = 0x5000;
	object_malloc(20);
	expect_loss(python_states_missing, 1);
	thread_state_key(true, 1024);
	*free_list(1) = 0x5020;
	object_malloc(20);
	expect_loss(python_states_missing, 2);
	object_malloc(1000); /* the raw domain serves it */
	raw_malloc(1000);
	heap_call(SHAPE_MALLOC, 1000, 0, 0x6000);
	expect_loss(python_states_missing, 3);
	raw_malloc(1000); /* a thread of C code may do so */
	heap_call(SHAPE_MALLOC, 1000, 0, 0x7000);
	expect_loss(python_states_missing, 3);
	expect_same(traceback_of(0x7000)->nframe, 1, "frames");
}

BOOK_TEST(python, traceback_of_another_interpreter_is_a_loss)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(0); /* no Python code runs in the thread's first interpreter */
	object_malloc(20);
	expect_loss(python_states_missing, 0);
	thread_state_runs(0x9000);
	*free_list(1) = 0x5000;
	object_malloc(20);
	expect_loss(python_states_missing, 1);
}

BOOK_TEST(python, frames_that_tracemalloc_does_not_see_are_left_out)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(4);
	frames[0].owner = 3; /* of C code that calls Python code */
	codes[1].first_traceable = 2; /* the second has not begun; the fourth has */
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 2, "frames");
	frames[1].owner = 1; /* a generator has */
	*free_list(1) = 0x5000;
	object_malloc(20);
	expect_same(traceback_of(0x5000)->nframe, 3, "frames");
}

BOOK_TEST(python, memory_of_a_code_object_gets_a_new_number_when_it_is_freed)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	object_malloc(20);
	object_free((__u64)&codes[0]);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[0]), 1, "the first");
	expect_same(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]), 2, "the second");
	expect(unknown_frees, 1);
}

/* As after a sweep of the loader: the thread and the cache may know a code object that the map does not have. */
BOOK_TEST(python, code_that_only_the_thread_remembers_ends_with_its_memory)
{
	__u64 block = (__u64)pool_at(0) + 48;
	struct python_code_key key;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	object_malloc(20);
	key = (struct python_code_key){ (__u64)&codes[0], book_of(process)->memory };
	cr_assert_eq(bpf_map_delete_elem(&python_codes, &key), 0);
	object_free((__u64)&codes[0]);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]), 2, "the second");
	expect(unknown_frees, 1);
}

BOOK_TEST(python, code_from_before_a_gap_gets_a_new_number)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	object_malloc(20);
	book_of(process)->resumed_ns = fake.now_ns;
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block + 32)->pc[0]), 2, "the second");
}

BOOK_TEST(python, code_without_room_to_tell_of_it_is_told_later)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	fake.ring_is_full = true;
	object_malloc(20);
	expect_loss(python_codes_missing, 1);
	expect_same(PYTHON_FRAME_CODE(traceback_of(block)->pc[0]), PYTHON_CODE_UNKNOWN, "code");
	fake.ring_is_full = false;
	*free_list(1) = 0x5000;
	object_malloc(20);
	cr_expect(PYTHON_FRAME_CODE(traceback_of(0x5000)->pc[0]));
}

BOOK_TEST(python, parts_that_do_not_fit_or_cannot_be_read_are_marked)
{
	const struct python_code_record *record = (const void *)fake.record;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	file_name.length = 1ULL << 40;
	code_name.state = 4 << 2;
	line_table.length = sizeof(line_table.bytes);
	object_malloc(20);
	cr_expect(!record->file.is_read && record->file.bytes == 1ULL << 40);
	cr_expect(record->name.is_read && record->name.bytes == 16);
	cr_expect(record->lines.is_read && record->lines.bytes == sizeof(line_table.bytes));
	file_name.length = 6;
	code_name.state = 1 << 2 | 1 << 6;
	line_table.length = 5;
}

BOOK_TEST(python, endless_frames_are_cut)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	frames[1].back = (__u64)frames;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->total_nframe, 65535, "frames");
}

/* As a thread's stack of frames: each lies above that of its caller. More of them than are read at once. */
BOOK_TEST(python, frames_above_each_other_are_read_together)
{
	struct traceback *traceback;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(500);
	for (unsigned int i = 0; i < 500; i++)
		frames[i].back = i ? (__u64)&frames[i - 1] : 0;
	thread_state.frame = (__u64)&frames[499];
	object_malloc(20);
	traceback = traceback_of((__u64)pool_at(0) + 48);
	expect_same(traceback->total_nframe, 500, "frames");
	for (unsigned int i = 0; i < traceback->nframe; i++)
		expect_same(PYTHON_FRAME_INSTRUCTION(traceback->pc[i]), (499 - i) % 64, "an instruction");
}

BOOK_TEST(python, frames_are_read_anew_for_each_traceback)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	object_malloc(20);
	frames[0].instruction += 10;
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(traceback_of(block + 32)->pc[0], PYTHON_FRAME_WORD(1, 5), "the first");
	expect_same(traceback_of(block + 32)->pc[1], PYTHON_FRAME_WORD(2, 1), "the second");
}

BOOK_TEST(python, frame_that_is_not_aligned_is_none)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(3);
	frames[1].back += 4;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 2, "frames");
	expect_loss(python_frames_broken, 1);
}

BOOK_TEST(python, code_objects_outside_of_the_cache_are_found)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	fake_map_resize(&python_code_cache, 1);
	pool_use(pool_at(0), 1);
	frames_make(3);
	object_malloc(20);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(traceback_of(block + 32)->pc[0], PYTHON_FRAME_WORD(1, 0), "the first");
	expect_same(traceback_of(block + 32)->pc[1], PYTHON_FRAME_WORD(2, 1), "the second");
	expect_same(fake.record_cnt, 2, "code objects");
}

/* Each place of the cache has an entry, which is of no code object here. */
static void cache_fill(void)
{
	for (__u32 i = 0; i < 1 << PYTHON_CACHE_SHIFT; i++) {
		struct python_code_cached *cached = bpf_map_lookup_elem(&python_code_cache, &i);

		*cached = (struct python_code_cached){ .check = 1, .known = 77ULL << 32 };
	}
}

BOOK_TEST(python, each_of_many_code_objects_has_its_own_number)
{
	static struct code many[100];
	struct traceback *traceback;

	settings_set(TRACEBACK_LIMIT_MAX, 0x5eed);
	python_begin_world(true);
	cache_fill();
	pool_use(pool_at(0), 1);
	frames_make(100);
	for (unsigned int i = 0; i < 100; i++) {
		many[i] = codes[0];
		frames[i].code = (__u64)&many[i];
		frames[i].instruction = (__u64)many[i].instruction;
	}
	object_malloc(20);
	object_free((__u64)pool_at(0) + 48);
	object_malloc(20);
	traceback = traceback_of((__u64)pool_at(0) + 48);
	expect_same(traceback->nframe, 100, "frames");
	for (unsigned int i = 0; i < 100; i++)
		expect_same(traceback->pc[i], PYTHON_FRAME_WORD(i + 1, 0), "a frame");
	expect_same(fake.record_cnt, 100, "code objects");
}

/* PyThreadState_Swap(), and an embedded CPython that begins again. */
BOOK_TEST(python, thread_state_is_that_of_each_call)
{
	__u64 block = (__u64)pool_at(0) + 48;

	python_begin_world(true);
	pool_use(pool_at(0), 1);
	object_malloc(20);
	thread_state_use(0);
	*free_list(1) = block + 32;
	object_malloc(20);
	expect_same(traceback_of(block)->pc[0], PYTHON_FRAME_WORD(1, 0), "with a state");
	expect_same(traceback_of(block + 32)->pc[0], PYTHON_FRAME, "without one");
	expect_loss(python_states_missing, 1);
}

BOOK_TEST(python, broken_frame_ends_the_traceback)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	frames[1].back = 8;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 2, "frames");
	expect_loss(python_frames_broken, 1);
}

BOOK_TEST(python, thread_without_python_has_one_unknown_frame)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(0);
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 1, "frames");
	expect_same(traceback_of((__u64)pool_at(0) + 48)->pc[0], PYTHON_FRAME, "it");
}
