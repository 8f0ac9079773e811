// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause


#include "code.h"
#include "fake_python.h"

/* The tracebacks of the interpreter, and the code objects that their frames run. */

ACCOUNT_TEST(python, traceback_is_the_interpreters)
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

ACCOUNT_TEST(python, state_of_a_thread_is_found_at_any_key)
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

ACCOUNT_TEST(python, traceback_of_a_thread_without_state_is_a_loss)
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

ACCOUNT_TEST(python, traceback_of_another_interpreter_is_a_loss)
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

ACCOUNT_TEST(python, frames_that_tracemalloc_does_not_see_are_left_out)
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

ACCOUNT_TEST(python, memory_of_a_code_object_gets_a_new_number_when_it_is_freed)
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
ACCOUNT_TEST(python, code_that_only_the_thread_remembers_ends_with_its_memory)
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

ACCOUNT_TEST(python, code_from_before_a_gap_gets_a_new_number)
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

ACCOUNT_TEST(python, code_without_room_to_tell_of_it_is_told_later)
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

ACCOUNT_TEST(python, parts_that_do_not_fit_or_cannot_be_read_are_marked)
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

ACCOUNT_TEST(python, endless_frames_are_cut)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	frames[1].back = (__u64)frames;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->total_nframe, 65535, "frames");
}

/* As a thread's stack of frames: each lies above its caller's frame. There are more frames than one read takes. */
ACCOUNT_TEST(python, frames_above_each_other_are_read_together)
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

ACCOUNT_TEST(python, frames_are_read_anew_for_each_traceback)
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

ACCOUNT_TEST(python, frame_that_is_not_aligned_is_none)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(3);
	frames[1].back += 4;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 2, "frames");
	expect_loss(python_frames_broken, 1);
}

ACCOUNT_TEST(python, code_objects_outside_of_the_cache_are_found)
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

ACCOUNT_TEST(python, each_of_many_code_objects_has_its_own_number)
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
ACCOUNT_TEST(python, thread_state_is_that_of_each_call)
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

ACCOUNT_TEST(python, broken_frame_ends_the_traceback)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(2);
	frames[1].back = 8;
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 2, "frames");
	expect_loss(python_frames_broken, 1);
}

ACCOUNT_TEST(python, thread_without_python_has_one_unknown_frame)
{
	python_begin_world(true);
	pool_use(pool_at(0), 1);
	frames_make(0);
	object_malloc(20);
	expect_same(traceback_of((__u64)pool_at(0) + 48)->nframe, 1, "frames");
	expect_same(traceback_of((__u64)pool_at(0) + 48)->pc[0], PYTHON_FRAME, "it");
}

/* Tracebacks of C code, and of C code and Python code together. */

/*
 * A function that allocates, the interpreter with the memory of a frame on its own, and a function that calls it.
 *
 *	word 1	 the interpreter, from word 2 on
 *	word 19	 the function that calls it
 *	word 21	 the interpreter, from word 22 on
 *	word 39	 the begin of the stack
 */
static const struct unwind_rule rules[FUNCTIONS] = { SP_PLUS(16), SP_PLUS(144), SP_PLUS(16), STACK_ROOT };
static struct code_file c_code;

#define ALLOCATES IN_FUNCTION(0)
#define INTERPRETER IN_FUNCTION(1)
#define CALLER IN_FUNCTION(2)
#define BEGIN IN_FUNCTION(3)
#define INNER_ENTRY 4
#define OUTER_ENTRY 30

#define IN_PYTHON(nr) PYTHON_FRAME_WORD((nr) % 2 + 1, nr)

static void c_stack_begin(enum python_frames kind)
{
	tables_begin(UNWINDER_DWARF);
	code_file_init(&c_code, 1, rules);
	code_map(CODE, &c_code);
	word_at(1) = word_at(21) = INTERPRETER;
	word_at(19) = CALLER;
	word_at(39) = BEGIN;
	python_begin_world(false);
	settings.python_frames = kind;
	pool_use(pool_at(0), 1);
}

/* The frame of the interpreter itself, on its C frame. */
static void shim_put(unsigned int word, struct frame *back)
{
	*(struct frame *)&word_at(word) = (struct frame){ .owner = 3, .back = (__u64)back };
}

/* Two frames of Python code, C code that runs one more, and the begin. */
static void shims_begin(void)
{
	frames_make(3);
	frames[1].back = (__u64)&word_at(INNER_ENTRY);
	shim_put(INNER_ENTRY, &frames[2]);
	frames[2].back = (__u64)&word_at(OUTER_ENTRY);
	shim_put(OUTER_ENTRY, NULL);
	python_tell();
}

/* The block that C code at an address allocates. */
static struct traceback *traceback_of_object(__u64 ip)
{
	__u64 block = *free_list(1);

	pass_place(ROW_MALLOC, (struct pt_regs){ .ip = ip, .sp = stack_pointer(), .r14 = 20, .flags = ZF });
	return traceback_of(block);
}

ACCOUNT_TEST(python, native_traceback_is_that_of_c_code)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_NATIVE);
	shims_begin();
	traceback = traceback_of_object(ALLOCATES);
	expect_frames(traceback, UNWIND_ROOT, ALLOCATES, INTERPRETER, CALLER, INTERPRETER, BEGIN);
	expect_same(traceback->exact[0], 1, "the place of the probe");
}

ACCOUNT_TEST(python, native_traceback_of_a_large_block_begins_at_the_return)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_NATIVE);
	shims_begin();
	object_malloc(1000);
	cr_assert(heap_call(SHAPE_MALLOC, 1000, 0, 0x5000));
	traceback = traceback_of(0x5000);
	expect_same(traceback->pc[0], 0x401000, "the return address");
	expect_same(traceback->exact[0], 0, "exact");
}

ACCOUNT_TEST(python, mixed_traceback_has_python_frames_where_c_code_runs_them)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	traceback = traceback_of_object(ALLOCATES);
	expect_frames(traceback, UNWIND_ROOT, ALLOCATES, IN_PYTHON(0), IN_PYTHON(1), CALLER, IN_PYTHON(2), BEGIN);
	expect_same(traceback->exact[0], 1, "the place of the probe");
	expect_loss(python_frames_unplaced, 0);
}

ACCOUNT_TEST(python, mixed_traceback_of_the_interpreter_itself_begins_with_python)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	frames_make(2);
	frames[1].back = (__u64)&word_at(INNER_ENTRY);
	shim_put(INNER_ENTRY, NULL);
	python_tell();
	word_at(17) = CALLER; /* the first function is the interpreter now */
	word_at(19) = BEGIN;
	traceback = traceback_of_object(INTERPRETER);
	expect_frames(traceback, UNWIND_ROOT, IN_PYTHON(0), IN_PYTHON(1), CALLER, BEGIN);
	expect_same(traceback->exact[0], 0, "exact");
}

ACCOUNT_TEST(python, mixed_traceback_by_the_structs_of_3_11)
{
	struct {
		__u64 tracing, frame, back;
	} *inner = (void *)&word_at(INNER_ENTRY), *outer = (void *)&word_at(OUTER_ENTRY);
	struct python_offsets before = python_layout;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	frames_make(3);
	inner->frame = (__u64)&frames[0];
	inner->back = (__u64)outer;
	outer->frame = (__u64)&frames[2];
	outer->back = 0;
	thread_state.frame = (__u64)inner;
	python_layout.cframe_frame = 8;
	python_layout.cframe_back = 16;
	python_layout.owner_shim = PYTHON_NO_OFFSET;
	python_tell();
	python_layout = before;
	expect_frames(traceback_of_object(ALLOCATES), UNWIND_ROOT, ALLOCATES, IN_PYTHON(0), IN_PYTHON(1), CALLER, IN_PYTHON(2),
		      BEGIN);
	expect_loss(python_frames_unplaced, 0);
}

ACCOUNT_TEST(python, mixed_traceback_without_an_entry_has_all_frames)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	frames[600 - 1] = (struct frame){ .owner = 3, .back = (__u64)&frames[2] }; /* on no C frame */
	frames[1].back = (__u64)&frames[600 - 1];
	traceback = traceback_of_object(ALLOCATES);
	expect_frames(traceback, UNWIND_ROOT, ALLOCATES, INTERPRETER, CALLER, INTERPRETER, BEGIN, IN_PYTHON(0), IN_PYTHON(1),
		      IN_PYTHON(2));
	expect_loss(python_frames_unplaced, 1);
}

ACCOUNT_TEST(python, mixed_traceback_of_cut_c_code_has_all_frames)
{
	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	word_at(21) = OTHER_CODE;
	expect_frames(traceback_of_object(ALLOCATES), UNWIND_NO_CODE, ALLOCATES, IN_PYTHON(0), IN_PYTHON(1), CALLER,
		      IN_PYTHON(2));
	expect_loss(python_frames_unplaced, 1);
}

ACCOUNT_TEST(python, mixed_traceback_of_a_thread_without_python_is_that_of_c_code)
{
	c_stack_begin(PYTHON_FRAMES_MIXED);
	frames_make(0);
	python_tell();
	expect_frames(traceback_of_object(ALLOCATES), UNWIND_ROOT, ALLOCATES, INTERPRETER, CALLER, INTERPRETER, BEGIN);
	expect_loss(python_frames_unplaced, 0);
}

ACCOUNT_TEST(python, mixed_traceback_of_endless_frames_is_cut)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	shim_put(INNER_ENTRY, &frames[0]);
	traceback = traceback_of_object(ALLOCATES);
	cr_expect(traceback->total_nframe > 4 && traceback->total_nframe <= 65535, "%u", traceback->total_nframe);
	expect_loss(python_frames_unplaced, 1);
}
