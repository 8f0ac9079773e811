// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tracebacks of C code, and of C code and Python code together. */
#include "code.h"
#include "fake_python.h"

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

BOOK_TEST(python, native_traceback_is_that_of_c_code)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_NATIVE);
	shims_begin();
	traceback = traceback_of_object(ALLOCATES);
	expect_frames(traceback, UNWIND_ROOT, ALLOCATES, INTERPRETER, CALLER, INTERPRETER, BEGIN);
	expect_same(traceback->exact[0], 1, "the place of the probe");
}

BOOK_TEST(python, native_traceback_of_a_large_block_begins_at_the_return)
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

BOOK_TEST(python, mixed_traceback_has_python_frames_where_c_code_runs_them)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	traceback = traceback_of_object(ALLOCATES);
	expect_frames(traceback, UNWIND_ROOT, ALLOCATES, IN_PYTHON(0), IN_PYTHON(1), CALLER, IN_PYTHON(2), BEGIN);
	expect_same(traceback->exact[0], 1, "the place of the probe");
	expect_loss(python_frames_unplaced, 0);
}

BOOK_TEST(python, mixed_traceback_of_the_interpreter_itself_begins_with_python)
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

BOOK_TEST(python, mixed_traceback_by_the_structs_of_3_11)
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

BOOK_TEST(python, mixed_traceback_without_an_entry_has_all_frames)
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

BOOK_TEST(python, mixed_traceback_of_cut_c_code_has_all_frames)
{
	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	word_at(21) = OTHER_CODE;
	expect_frames(traceback_of_object(ALLOCATES), UNWIND_NO_CODE, ALLOCATES, IN_PYTHON(0), IN_PYTHON(1), CALLER,
		      IN_PYTHON(2));
	expect_loss(python_frames_unplaced, 1);
}

BOOK_TEST(python, mixed_traceback_of_a_thread_without_python_is_that_of_c_code)
{
	c_stack_begin(PYTHON_FRAMES_MIXED);
	frames_make(0);
	python_tell();
	expect_frames(traceback_of_object(ALLOCATES), UNWIND_ROOT, ALLOCATES, INTERPRETER, CALLER, INTERPRETER, BEGIN);
	expect_loss(python_frames_unplaced, 0);
}

BOOK_TEST(python, mixed_traceback_of_endless_frames_is_cut)
{
	struct traceback *traceback;

	c_stack_begin(PYTHON_FRAMES_MIXED);
	shims_begin();
	shim_put(INNER_ENTRY, &frames[0]);
	traceback = traceback_of_object(ALLOCATES);
	cr_expect(traceback->total_nframe > 4 && traceback->total_nframe <= 65535, "%u", traceback->total_nframe);
	expect_loss(python_frames_unplaced, 1);
}
