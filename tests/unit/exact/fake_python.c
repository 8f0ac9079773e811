// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fake_python.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "compared_hooks.h"
#include "elf/python/python_info.h"

static const struct python_offsets *offsets = &python_hooks.offsets;
static uint64_t key = 1;
static __thread uint64_t own_slot[2]; /* sequence number of the key, state */
#define own_state own_slot[1]
static __thread bool realloc_fails;

uint32_t fake_random(struct fake_thread *thread, uint32_t most)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return (thread->random >> 20) % most;
}

static void put_word(uint64_t at, uint64_t word)
{
	*(uint64_t *)at = word;
}

static void put_half(uint64_t at, uint32_t half)
{
	*(uint32_t *)at = half;
}

#include "fake_allocators.h"

/* ---- pages of frames: the unused ones cannot be read ---- */

#define FRAME_STEP 112
#define FRAMES_OF_PAGE 8
#define PAGES_NR 2048

static char *pages;
static uint32_t free_page[PAGES_NR], free_page_nr;

static uint64_t take_page(struct fake_thread *thread)
{
	uint32_t at, page;

	cr_assert(free_page_nr > 4);
	at = free_page_nr - 1 - fake_random(thread, 3);
	page = free_page[at];
	free_page[at] = free_page[--free_page_nr];
	cr_assert_eq(mprotect(pages + UINT64_C(4096) * page, 4096, PROT_READ | PROT_WRITE), 0);
	return (uint64_t)pages + UINT64_C(4096) * page;
}

static void give_page(uint64_t at)
{
	uint64_t page = (at - (uint64_t)pages) / 4096;

	cr_assert_eq(mprotect(pages + 4096 * page, 4096, PROT_NONE), 0);
	free_page[free_page_nr++] = page;
}

/* ---- code objects ---- */

#define STATE_OF(bytes, is_ascii) ((bytes) << 2 | 1 << 5 | (is_ascii) << 6)

static const struct kind_of_text {
	uint32_t bytes, is_ascii;
} text_kinds[] = { { 1, 1 }, { 1, 0 }, { 2, 0 }, { 4, 0 } };

static char content_text[FAKE_CONTENTS][3][1024]; /* file, name, line table */

static const struct kind_of_text *kind_of(int content, int part)
{
	return &text_kinds[(content + part) % ARRAY_SIZE(text_kinds)];
}

static uint32_t characters_of(int content, int part)
{
	return 7 + (content * 5 + part * 3) % 60;
}

static bool is_generator_code(int content)
{
	return content % 4 == 0;
}

static int first_of(int content)
{
	return content % 5;
}

/* Until 3.10: an instruction is a number. */
static bool frames_are_objects(void)
{
	return offsets->instruction_kind != PYTHON_POINTER;
}

static int units_of(int content)
{
	return content % 6 == 5 ? 400 : 30 + 5 * content;
}

static uint64_t bytes_of_code(int content)
{
	return frames_are_objects() ? 176 : offsets->code_instructions + 2 * units_of(content);
}

static uint64_t data_of_text(int content, int part)
{
	uint64_t at = (uint64_t)content_text[content][part];

	if (part == 2)
		return at + offsets->bytes_data;
	return at + (kind_of(content, part)->is_ascii ? offsets->string_ascii : offsets->string_compact);
}

static uint64_t bytes_of_text(int content, int part)
{
	return (uint64_t)characters_of(content, part) * (part == 2 ? 1 : kind_of(content, part)->bytes);
}

static void make_contents(void)
{
	for (int i = 0; i < FAKE_CONTENTS; i++)
		for (int part = 0; part < 3; part++) {
			uint64_t at = (uint64_t)content_text[i][part];

			memset((void *)at, 0, sizeof(content_text[i][part]));
			put_word(at + (part == 2 ? offsets->bytes_length : offsets->string_length), characters_of(i, part));
			if (part < 2)
				put_half(at + offsets->string_state, STATE_OF(kind_of(i, part)->bytes, kind_of(i, part)->is_ascii));
			memset((void *)data_of_text(i, part), 'a' + i % 20 + part, bytes_of_text(i, part));
		}
}

static void fill_code(const struct fake_code *code)
{
	uint64_t at = code->at;

	put_word(at + 16, units_of(code->content));
	put_word(at + offsets->code_filename, (uint64_t)content_text[code->content][0]);
	put_word(at + offsets->code_name, (uint64_t)content_text[code->content][1]);
	put_word(at + offsets->code_lines, (uint64_t)content_text[code->content][2]);
	put_half(at + offsets->code_first_line, 1000 + code->content);
	if (offsets->code_first_traceable != PYTHON_NO_OFFSET)
		put_half(at + offsets->code_first_traceable, first_of(code->content));
}

/* ---- frames ---- */

#define TRACE_MULTIPLIER UINT64_C(0x100000001b3)

static uint64_t add_to_hash(uint64_t hash, int content, int unit)
{
	return (hash ^ ((uint64_t)(content + 1) << 32 | (uint32_t)unit)) * TRACE_MULTIPLIER;
}

/* Until 3.10 all frames are there. */
static bool has_begun(const struct fake_frame *frame)
{
	return frames_are_objects() || frame->is_generator || frame->unit >= first_of(frame->code->content);
}

/* The traceback that tracemalloc would have: frames that have not begun are left out. */
static void trace_of(const struct fake_thread *thread, struct fake_row *ret)
{
	const struct fake_chain *chain = thread ? &thread->chain[thread->current] : NULL;

	ret->hash = ret->frame_nr = 0;
	for (int i = chain ? chain->nr : 0; i-- > 0;) {
		const struct fake_frame *frame = &chain->frame[i];

		if (!frame->code || !has_begun(frame))
			continue;
		ret->hash = add_to_hash(ret->hash, frame->code->content, frame->unit);
		ret->frame_nr++;
	}
}

static void put_instruction(const struct fake_frame *frame)
{
	uint64_t instruction = frame->code ? frame->code->at + offsets->code_instructions + 2 * frame->unit : 0x7000 + frame->at % 64;

	if (frames_are_objects())
		put_half(frame->at + offsets->frame_instruction, frame->unit);
	else
		put_word(frame->at + offsets->frame_instruction, instruction);
}

/* The thread's state names its innermost frame. */
static void tell_innermost(struct fake_thread *thread)
{
	struct fake_chain *chain = &thread->chain[thread->current];
	uint64_t frame = chain->nr ? chain->frame[chain->nr - 1].at : 0, *word = &thread->state[offsets->tstate_frame / 8];

	if (offsets->cframe_frame == PYTHON_NO_OFFSET) {
		*word = frame;
	} else {
		chain->cframe[offsets->cframe_frame / 8] = frame;
		*word = (uint64_t)chain->cframe;
	}
}

static void enter_frame(struct fake_thread *thread, const struct fake_frame *frame)
{
	struct fake_chain *chain = &thread->chain[thread->current];
	uint64_t tag = offsets->code_mask == UINT64_MAX ? 0 : 1;

	put_word(frame->at + offsets->frame_code, frame->code ? frame->code->at | tag : UINT64_C(0xdead000));
	put_word(frame->at + offsets->frame_back, chain->nr ? chain->frame[chain->nr - 1].at : 0);
	if (offsets->frame_owner != PYTHON_NO_OFFSET)
		*(uint8_t *)(frame->at + offsets->frame_owner) =
			!frame->code ? offsets->owner_shim : frame->is_generator ? offsets->owner_generator : 0;
	put_instruction(frame);
	chain->frame[chain->nr++] = *frame;
	tell_innermost(thread);
}

/* Behind the latest frame of the chain that is on the data stack. */
static uint64_t room_for_frame(struct fake_thread *thread)
{
	const struct fake_chain *chain = &thread->chain[thread->current];
	int i = chain->nr - 1;

	while (i >= 0 && chain->frame[i].is_generator)
		i--;
	if (i < 0 || chain->frame[i].at % 4096 / FRAME_STEP == FRAMES_OF_PAGE - 1)
		return take_page(thread);
	return chain->frame[i].at + FRAME_STEP;
}

static int choose_unit(struct fake_thread *thread, int content, bool is_generator)
{
	int first = first_of(content);

	/* In code without end: where there is no room for the number, and one more bit than there is room for. */
	if (frames_are_objects() && content % 6 == 5 && !fake_random(thread, 3))
		return (1 << 20) * (1 + fake_random(thread, 2)) - 4 + fake_random(thread, 8);
	if (!is_generator && !fake_random(thread, 8))
		return fake_random(thread, 2) ? -1 : first - 1;
	return first + 3 * fake_random(thread, 4);
}

static struct fake_code *choose_code(struct fake_python *python, struct fake_thread *thread, bool is_generator)
{
	for (int tries = 0; tries < 20; tries++) {
		struct fake_code *code = &python->code[fake_random(thread, FAKE_CODES)];

		if (code->at && is_generator_code(code->content) == is_generator)
			return code;
	}
	return NULL;
}

static void call_function(struct fake_python *python, struct fake_thread *thread)
{
	bool is_shim = offsets->owner_shim != PYTHON_NO_OFFSET && !fake_random(thread, 6);
	struct fake_frame frame = { .code = is_shim ? NULL : choose_code(python, thread, false) };

	if (thread->chain[thread->current].nr == FAKE_DEPTH || (!frame.code && !is_shim))
		return;
	frame.at = room_for_frame(thread);
	if (frame.code) {
		frame.code->refs++;
		frame.unit = choose_unit(thread, frame.code->content, false);
	}
	enter_frame(thread, &frame);
}

static void return_from(struct fake_thread *thread)
{
	struct fake_chain *chain = &thread->chain[thread->current];
	struct fake_frame *frame;

	if (!chain->nr)
		return;
	frame = &chain->frame[--chain->nr];
	tell_innermost(thread);
	if (frame->is_generator) {
		thread->is_running[frame->generator] = false;
		thread->generator[frame->generator].unit = frame->unit;
		if (fake_random(thread, 2))
			put_word(frame->at + offsets->frame_back, 0);
		return;
	}
	if (frame->code)
		frame->code->refs--;
	if (frame->at % 4096 < FRAME_STEP)
		give_page(frame->at);
}

static void resume_generator(struct fake_python *python, struct fake_thread *thread)
{
	int i = fake_random(thread, FAKE_GENERATORS);
	struct fake_frame *generator = &thread->generator[i];

	if (thread->is_running[i] || thread->chain[thread->current].nr == FAKE_DEPTH)
		return;
	if (!generator->at) {
		*generator = (struct fake_frame){ .code = choose_code(python, thread, true), .is_generator = true, .generator = i };
		if (!generator->code)
			return;
		generator->code->refs++;
		generator->at = take_page(thread) + FRAME_STEP * fake_random(thread, 35);
	}
	thread->is_running[i] = true;
	generator->unit = choose_unit(thread, generator->code->content, true);
	enter_frame(thread, generator);
}

static void end_generator(struct fake_thread *thread, int i)
{
	struct fake_frame *generator = &thread->generator[i];

	if (!generator->at || thread->is_running[i])
		return;
	generator->code->refs--;
	give_page(generator->at);
	generator->at = 0;
}

static void go_on(struct fake_thread *thread)
{
	struct fake_chain *chain = &thread->chain[thread->current];
	struct fake_frame *frame = chain->nr ? &chain->frame[chain->nr - 1] : NULL;

	if (!frame || !frame->code)
		return;
	frame->unit = choose_unit(thread, frame->code->content, frame->is_generator);
	put_instruction(frame);
}

/* ---- blocks ---- */

static void note_row(struct fake_thread *thread, struct fake_row *row, void *block, uint64_t size)
{
	cr_assert_not_null(block);
	trace_of(thread, row);
	row->address = (uint64_t)block;
	row->size = size;
	row->tid = gettid();
}

#define TYPE(flags) { [PYTHON_TYPE_FLAGS / 8] = (flags) }

static const uint64_t types[4][PYTHON_TYPE_FLAGS / 8 + 1] = {
	TYPE(0), TYPE(PYTHON_TYPE_HAS_GC), TYPE(1 << 3), TYPE(PYTHON_TYPE_HAS_GC | 1 << 4),
};
static bool has_tracer; /* from 3.13 on: a hook sees objects begin */

void fake_object(uint64_t block, int type)
{
	uint64_t object = block + (type & 1 ? offsets->object_header : 0) + (type & 2 ? offsets->object_preheader : 0);

	put_word(object + offsets->object_type, (uint64_t)types[type]);
	cr_assert_eq(hook_reference((void *)object, 0, NULL), 0);
	cr_assert_eq(hook_reference((void *)object, 1, NULL), 0);
}

/* In a new block at once; later in memory that a free list has kept. */
static void begin_object(struct fake_thread *thread, int i, bool may_be)
{
	struct fake_row *row = &thread->block[i];

	thread->is_object[i] = may_be && has_tracer && row->size >= FAKE_OBJECT_BYTES;
	if (!thread->is_object[i])
		return;
	fake_object(row->address, i % 4);
	note_row(thread, row, (void *)row->address, row->size);
}

static uint32_t choose_size(struct fake_thread *thread)
{
	uint32_t kind = fake_random(thread, 10);

	return kind < 8 ? fake_random(thread, 200) : kind < 9 ? fake_random(thread, 600) : fake_random(thread, 5000);
}

static void new_block(struct fake_thread *thread, int i, bool is_raw)
{
	uint32_t size = choose_size(thread), nr = 1 + fake_random(thread, 3), way = fake_random(thread, 4);
	struct fake_row *row = &thread->block[i];

	thread->is_raw[i] = is_raw;
	if (way == 0)
		note_row(thread, row, is_raw ? hook_raw_calloc(NULL, nr, size) : hook_mem_calloc(NULL, nr, size), (uint64_t)nr * size);
	else if (way == 1)
		note_row(thread, row, is_raw ? hook_raw_realloc(NULL, NULL, size) : hook_object_realloc(NULL, NULL, size), size);
	else
		note_row(thread, row, is_raw ? hook_raw_malloc(NULL, size) : hook_object_malloc(NULL, size), size);
	begin_object(thread, i, !is_raw && fake_random(thread, 2));
}

static void move_block(struct fake_thread *thread, int i)
{
	struct fake_row *row = &thread->block[i];
	uint32_t size = choose_size(thread);
	void *block;

	realloc_fails = !fake_random(thread, 3);
	block = thread->is_raw[i] ? hook_raw_realloc(NULL, (void *)row->address, size) : hook_mem_realloc(NULL, (void *)row->address, size);
	realloc_fails = false;
	if (!block)
		return;
	note_row(thread, row, block, size);
	begin_object(thread, i, thread->is_object[i]);
}

static void drop_block(struct fake_thread *thread, int i)
{
	struct fake_row *row = &thread->block[i];

	if (thread->is_raw[i])
		hook_raw_free(NULL, (void *)row->address);
	else
		hook_object_free(NULL, (void *)row->address);
	/* One that has become small where it was: two frees, of which the hooks know one. */
	thread->twice_nr += !thread->is_raw[i] && row->size <= BOOKS_SMALL_MAX && !is_of_slab((void *)row->address);
	row->address = 0;
}

static void step_block(struct fake_thread *thread, int i, bool is_raw)
{
	uint32_t way = fake_random(thread, 10);

	if (!thread->block[i].address)
		new_block(thread, i, is_raw);
	else if (thread->is_object[i] && way < 5)
		begin_object(thread, i, true);
	else if (way < 7)
		drop_block(thread, i);
	else
		move_block(thread, i);
}

/* One that ends makes room for one with another content, mostly at the same address. */
static void change_code(struct fake_python *python, struct fake_thread *thread)
{
	struct fake_code *code = &python->code[fake_random(thread, FAKE_CODES)];
	uint64_t size;

	if (code->refs)
		return;
	if (code->at)
		hook_object_free(NULL, (void *)code->at);
	*code = (struct fake_code){ .content = fake_random(thread, FAKE_CONTENTS) };
	size = bytes_of_code(code->content);
	code->at = (uint64_t)hook_object_malloc(NULL, size);
	note_row(thread, &code->row, (void *)code->at, size);
	memset((void *)code->at, 0, size);
	fill_code(code);
}

/* ---- steps ---- */

#define RAW_BLOCKS 64 /* the first ones, which steps without the GIL use */

void fake_raw_step(struct fake_thread *thread)
{
	step_block(thread, fake_random(thread, RAW_BLOCKS), true);
}

void fake_raw_block(struct fake_thread *thread, struct fake_row *ret)
{
	uint32_t size = choose_size(thread);

	note_row(thread, ret, hook_raw_malloc(NULL, size), size);
}

void fake_adopt_row(struct fake_thread *thread, struct fake_row *row)
{
	int i = 0;

	while (i < FAKE_BLOCKS && thread->block[i].address)
		i++;
	cr_assert(i < FAKE_BLOCKS);
	thread->block[i] = *row;
	thread->is_raw[i] = true;
	free(row);
}

void fake_step(struct fake_python *python, struct fake_thread *thread)
{
	uint32_t way = fake_random(thread, 100);

	if (way < 20)
		call_function(python, thread);
	else if (way < 36)
		return_from(thread);
	else if (way < 46)
		go_on(thread);
	else if (way < 49)
		thread->current = fake_random(thread, FAKE_CHAINS), tell_innermost(thread);
	else if (way < 55)
		resume_generator(python, thread);
	else if (way < 57)
		end_generator(thread, fake_random(thread, FAKE_GENERATORS));
	else if (way < 60)
		change_code(python, thread);
	else if (way < 61)
		for (int nr = fake_random(thread, 40); nr > 0; nr--)
			return_from(thread);
	else
		step_block(thread, RAW_BLOCKS + fake_random(thread, FAKE_BLOCKS - RAW_BLOCKS), !fake_random(thread, 5));
}

/* ---- begin and end ---- */

static uint64_t function_of(void *function)
{
	return (uint64_t)function;
}

static uint64_t finalizing;

static void fill_hooks_of(const struct python_offsets *of, const struct made_books *made)
{
	python_hooks = (struct python_hooks){
		.books = (uint64_t)made->base, .key_at = (uint64_t)&key, .key_is = key,
		.state_at = BEHIND_THREAD_POINTER(own_state), .finalizing_at = (uint64_t)&finalizing, .offsets = *of,
		.old = {
			[PYTHON_RAW] = { function_of(raw_malloc), function_of(raw_calloc), function_of(raw_realloc), function_of(raw_free) },
			[PYTHON_MEM] = { function_of(object_malloc), function_of(object_calloc), function_of(object_realloc), function_of(object_free) },
			[PYTHON_OBJECT] = { function_of(object_malloc), function_of(object_calloc), function_of(object_realloc), function_of(object_free) },
		},
	};
	turn_compared_hooks(1);
}

void fake_python_begin(struct fake_python *python, unsigned char minor, struct fake_thread *threads, int thread_nr, uint64_t seed,
		       struct made_books *made)
{
	struct python_offsets of;

	cr_assert(python_offsets_of((struct python_version){ 3, minor }, &of));
	*python = (struct fake_python){ .minor = minor, .thread = threads, .thread_nr = thread_nr, .gil = PTHREAD_MUTEX_INITIALIZER };
	make_file_of_books(made);
	open_made_books(made);
	fill_hooks_of(&of, made);
	make_contents();
	slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages = mmap(NULL, UINT64_C(4096) * PAGES_NR, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(slab != MAP_FAILED && pages != MAP_FAILED);
	has_tracer = minor >= 13;
	slab_used = 0;
	memset(slab_free, 0, sizeof(slab_free));
	for (free_page_nr = 0; free_page_nr < PAGES_NR; free_page_nr++)
		free_page[free_page_nr] = free_page_nr;
	memset(threads, 0, thread_nr * sizeof(*threads));
	for (int i = 0; i < thread_nr; i++) {
		threads[i].random = (seed * 64 + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
		tell_innermost(&threads[i]);
	}
}

void fake_python_end(struct fake_python *python)
{
	turn_compared_hooks(0);
	for (int i = 0; i < python->thread_nr; i++)
		for (int k = 0; k < FAKE_BLOCKS; k++)
			if (python->thread[i].block[k].address)
				drop_block(&python->thread[i], k);
	for (int i = 0; i < FAKE_CODES; i++)
		if (python->code[i].at)
			hook_object_free(NULL, (void *)python->code[i].at);
	munmap(slab, SLAB_BYTES);
	munmap(pages, UINT64_C(4096) * PAGES_NR);
}

void fake_key(bool is_made, uint64_t own_sequence, uint64_t ending)
{
	key = is_made;
	own_slot[0] = own_sequence;
	finalizing = ending;
}

void be_fake_thread(struct fake_thread *thread)
{
	own_state = thread ? (uint64_t)thread->state : 0;
}

/* ---- the books ---- */

struct seen_stack {
	uint64_t hash;
	uint32_t frame_nr;
};

struct seen_books {
	int *content; /* by id of a code object */
	size_t content_nr, content_alloc;
	struct seen_stack *stack; /* by node */
	size_t stack_nr, stack_alloc;
	uint64_t allocations, bytes, temporary;
};

static bool is_content(const struct books_code *code, int content)
{
	const char *text = (const char *)(code + 1);
	const uint64_t bytes[] = { code->file_bytes, code->name_bytes, code->line_bytes };

	for (int part = 0; part < 3; text += bytes[part++])
		if (bytes[part] != bytes_of_text(content, part) || memcmp(text, (void *)data_of_text(content, part), bytes[part]))
			return false;
	return code->first_line == 1000 + content && code->file_state == STATE_OF(kind_of(content, 0)->bytes, kind_of(content, 0)->is_ascii);
}

static int see_code(void *seen_, const struct books_code *code)
{
	struct seen_books *seen = seen_;
	int content = 0;

	while (content < FAKE_CONTENTS && !is_content(code, content))
		content++;
	cr_assert(content < FAKE_CONTENTS, "code %u is none of ours", code->id);
	return array_fill(seen, content, code->id, at, -1) ?: array_push(seen, content, content);
}

static int see_stack(void *seen_, const struct books_stack *stack)
{
	struct seen_books *seen = seen_;
	struct seen_stack row = { .frame_nr = stack->frame_nr };

	for (uint32_t i = 0; i < stack->frame_nr; i++) {
		uint32_t id = stack->frame[i] >> 32;

		cr_assert(id < seen->content_nr && seen->content[id] >= 0, "a frame of code %u", id);
		row.hash = add_to_hash(row.hash, seen->content[id], (int32_t)stack->frame[i]);
	}
	seen->allocations += stack->totals.allocations;
	seen->bytes += stack->totals.allocated_bytes;
	seen->temporary += stack->totals.temporary;
	return array_fill(seen, stack, stack->id, at, (struct seen_stack){}) ?: array_push(seen, stack, row);
}

static int by_row_address(const void *a, const void *b)
{
	uint64_t x = ((const struct fake_row *)a)->address, y = ((const struct fake_row *)b)->address;

	return (x > y) - (x < y);
}

/* All rows, by address. */
static size_t collect_rows(const struct fake_python *python, struct fake_row **ret)
{
	size_t nr = 0;

	*ret = calloc(python->thread_nr * FAKE_BLOCKS + FAKE_CODES, sizeof(**ret));
	for (int i = 0; i < python->thread_nr; i++)
		for (int k = 0; k < FAKE_BLOCKS; k++)
			if (python->thread[i].block[k].address)
				(*ret)[nr++] = python->thread[i].block[k];
	for (int i = 0; i < FAKE_CODES; i++)
		if (python->code[i].at)
			(*ret)[nr++] = python->code[i].row;
	qsort(*ret, nr, sizeof(**ret), by_row_address);
	return nr;
}

static void check_rows(const struct fake_row *row, size_t row_nr, const struct read_books *read, const struct seen_books *seen,
		       const char *what)
{
	for (size_t i = 0; i < row_nr && i < read->block_nr; i++) {
		const struct books_block *block = &read->block[i];
		const struct seen_stack *stack = block->node < seen->stack_nr ? &seen->stack[block->node] : NULL;

		cr_assert_eq(block->address, row[i].address, "%s: block %zu at %#lx, expected %#lx", what, i, block->address, row[i].address);
		cr_assert_eq(block->size, row[i].size, "%s: %#lx has %lu bytes, expected %lu", what, block->address, block->size, row[i].size);
		cr_assert_eq(block->tid, row[i].tid, "%s: %#lx of thread %u, expected %u", what, block->address, block->tid, row[i].tid);
		cr_assert(stack && stack->frame_nr == row[i].frame_nr && stack->hash == row[i].hash, "%s: %#lx has the frames of node %u: %u, expected %u",
			  what, block->address, block->node, stack ? stack->frame_nr : 0, row[i].frame_nr);
	}
	cr_assert_eq(read->block_nr, row_nr, "%s: blocks", what);
}

static void check_numbers_of(const struct fake_python *python, struct made_books *made, const struct seen_books *seen, size_t row_nr,
			     const char *what)
{
	struct books_numbers numbers;
	uint64_t twice_nr = 0;

	books_read_numbers(made->books, &numbers);
	for (int i = 0; i < BOOKS_LOSS_NR; i++)
		cr_assert_eq(numbers.lost[i], 0, "%s: loss %d is %lu", what, i, numbers.lost[i]);
	cr_assert_eq(MADE_HEAD(made)->differ, 0, "%s: %lu of %lu walks differ", what, MADE_HEAD(made)->differ, MADE_HEAD(made)->compared);
	for (int i = 0; i < python->thread_nr; i++)
		twice_nr += python->thread[i].twice_nr;
	cr_assert_eq(numbers.unknown_frees, twice_nr, "%s: frees of blocks that are not known: %lu, expected %lu", what,
		     numbers.unknown_frees, twice_nr);
	cr_assert_eq(numbers.allocations - numbers.frees, row_nr, "%s: %lu allocations, %lu frees", what, numbers.allocations, numbers.frees);
	cr_assert_eq(numbers.allocations, seen->allocations, "%s: allocations by node: %lu, by thread %lu", what, seen->allocations,
		     numbers.allocations);
}

void check_ledgers(struct fake_python *python, struct made_books *made, const char *what)
{
	static struct seen_books seen; /* the reader gives each code object once */
	struct read_books read = {};
	struct fake_row *row;
	size_t row_nr = collect_rows(python, &row);

	if (!python->has_seen)
		seen.content_nr = 0;
	python->has_seen = true;
	seen.stack_nr = seen.allocations = 0;
	cr_assert_eq(cut_and_read(made, 2, false, &read), 0);
	cr_assert_eq(books_read_codes(made->books, see_code, &seen), 0);
	cr_assert_eq(books_read_stacks(made->books, BOOKS_DEEPEST, see_stack, &seen), 0);
	check_rows(row, row_nr, &read, &seen, what);
	check_numbers_of(python, made, &seen, row_nr, what);
	release_read_books(&read);
	free(row);
}
