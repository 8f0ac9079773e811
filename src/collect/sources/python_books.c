// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_books.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect/build/build_metadata.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/books_pass.h"
#include "exact/books_reader.h"
#include "shared/python_calls.h"
#include "shared/unwind_types.h"

/* ---- which processes have some ---- */

static struct python_books *find_process_books(const struct all_python_books *all, pid_t pid)
{
	return array_find(all, process, i, all->process[i].pid == pid);
}

struct books *find_python_books(const struct all_python_books *all, pid_t pid)
{
	const struct python_books *found = find_process_books(all, pid);

	return found ? found->books : NULL;
}

bool python_books_retag(const struct all_python_books *all, pid_t pid)
{
	const struct python_books *found = find_process_books(all, pid);

	return found && found->tracer.address;
}

static int read_table_word(pid_t pid, uint64_t address, uint64_t *ret)
{
	const struct iovec to = { ret, sizeof(*ret) }, from = { (void *)address, sizeof(*ret) };

	return process_vm_readv(pid, &to, 1, &from, 1, 0) == sizeof(*ret) ? 0 : -EFAULT;
}

int python_books_add(struct all_python_books *all, const struct python_books *new, int fd)
{
	struct python_books books = *new;
	int err = books_open(fd, BOOKS_OF_PYTHON, monotonic_now_ns(), &books.books);

	books.looked_ns = monotonic_now_ns();
	err = err ?: array_push(all, process, books);
	if (err)
		books_close(books.books);
	return err;
}

static bool read_table_words(pid_t pid, uint64_t address, uint64_t *ret, int nr)
{
	int err = 0;

	for (int i = 0; i < nr && !err; i++)
		err = read_table_word(pid, address + sizeof(*ret) * i, &ret[i]);
	return !err;
}

/* Whether these are the pointers to hooks, or of a tracemalloc in front, whose context has them: it calls them. */
static bool lead_to_hooks(pid_t pid, const struct python_word *hook)
{
	uint64_t table = hook[PYTHON_MALLOC].address - sizeof(uint64_t), word[1 + PYTHON_OPERATION_NR];

	for (int layer = 0; layer < 2; layer++) {
		int same = 0;

		if (!read_table_words(pid, table, word, 1 + PYTHON_OPERATION_NR))
			return !layer; /* the process has ended, or another has come to its address */
		while (same < PYTHON_OPERATION_NR && word[1 + same] == hook[same].put)
			same++;
		if (same == PYTHON_OPERATION_NR)
			return true;
		table = word[0];
	}
	return false;
}

static bool has_hooks(const struct python_books *books)
{
	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++)
		if (!lead_to_hooks(books->pid, &books->word[domain * PYTHON_OPERATION_NR]))
			return false;
	return true;
}

/* Blocks are right without it, but for the lines of those that free lists keep. */
static void check_tracer(struct collector *collector, struct target *target, struct python_books *books)
{
	uint64_t word;

	if (!books->tracer.address || read_table_word(books->pid, books->tracer.address, &word) || word == books->tracer.put)
		return;
	books->tracer.address = 0;
	target->python.retags = false;
	notes_add(&collector->notes,
		  "process %d (%s): another function sees when its objects begin (tracemalloc has begun, or PyRefTracer_SetTracer() "
		  "was called): from here on an object in reused free-list memory has the line of the first object there",
		  target->identity.pid, target->identity.comm);
}

/* From some time since the last look until now, calls were not seen: that is a gap, and it stays open. */
static void check_hooks(struct collector *collector, struct target *target, struct python_books *books)
{
	uint64_t now_ns = monotonic_now_ns();

	check_tracer(collector, target, books);
	if (!books->is_lost && has_hooks(books)) {
		books->looked_ns = now_ns;
		return;
	}
	if (!books->is_lost)
		notes_add(&collector->notes,
			  "process %d (%s): other functions stand where its blocks were recorded (tracemalloc was stopped, or "
			  "PyMem_SetAllocator was called): from here on nothing is recorded; to do: attach again",
			  target->identity.pid, target->identity.comm);
	books->is_lost = true;
	pausing_add_past(&target->budget.own, books->looked_ns, now_ns);
	books->looked_ns = now_ns;
}

void python_books_release(struct all_python_books *all)
{
	for (size_t i = 0; i < all->process_nr; i++)
		books_close(all->process[i].books);
	free(all->process);
	*all = (struct all_python_books){};
}

/* ---- a pass ---- */

/* The kernel side counts its own numbers of code objects, from 1 on. */
#define CODES_OF_BOOKS (1u << 30)

static uint64_t frame_of_books(uint64_t frame)
{
	uint32_t code = frame >> 32;

	return PYTHON_FRAME_WORD(code == PYTHON_CODE_UNKNOWN ? code : code | CODES_OF_BOOKS, frame);
}

/* Copies bytes that lie behind the struct, in place of memory of the process. */
static int read_behind(void *code, uint64_t address, void *to, size_t bytes)
{
	memcpy(to, (const char *)code + sizeof(struct books_code) + address, bytes);
	return 0;
}

static bool is_always_same(void *code)
{
	(void)code;
	return true;
}

static int join_code(void *target_, const struct books_code *code)
{
	struct target *target = target_;
	const struct python_code_record record = {
		.id = code->id | CODES_OF_BOOKS,
		.first_line = code->first_line,
		.file = { .address = 0, .bytes = code->file_bytes, .state = code->file_state },
		.name = { .address = code->file_bytes, .bytes = code->name_bytes, .state = code->name_state },
		.lines = { .address = code->file_bytes + code->name_bytes, .bytes = code->line_bytes },
	};
	int err = python_codes_add(&target->python.codes, &record, sizeof(record), read_behind, is_always_same,
				   (void *)code);

	return err == -ENOMEM ? err : 0; /* frames of others have no name, which is counted */
}

static struct books *python_books_of(const struct target *target)
{
	return target->python.books;
}

static void check_target_hooks(struct collector *collector, struct target *target)
{
	if (!target->life.has_ended)
		check_hooks(collector, target, find_process_books(&collector->sources->python_books, target->identity.pid));
}

static int read_target_codes(struct collector *collector, struct target *target)
{
	(void)collector;
	return books_read_codes(target->python.books, join_code, target);
}

static int fill_python_frames(struct target *target, const struct books_stack *stack, uint64_t id, struct traceback *ret)
{
	(void)target, (void)id;
	ret->end = UNWIND_ROOT;
	ret->nframe = stack->kept_nr;
	ret->total_nframe = stack->frame_nr;
	for (uint32_t i = 0; i < ret->nframe; i++)
		ret->pc[i] = frame_of_books(stack->frame[i]);
	if (!stack->frame_nr) { /* a thread without Python code: tracemalloc has one unknown frame */
		ret->pc[0] = PYTHON_FRAME_WORD(PYTHON_CODE_UNKNOWN, 0);
		ret->nframe = ret->total_nframe = 1;
	}
	return 0;
}

static const struct books_lane python_lane = {
	.layer = LAYER_POOL,
	.domain = DOMAIN_PYTHON,
	.books_of = python_books_of,
	.before_cut = check_target_hooks,
	.after_read = read_target_codes,
	.fill = fill_python_frames,
};

uint64_t keep_python_births(struct collector *collector)
{
	return keep_births(collector, &python_lane);
}

int read_python_books(struct collector *collector)
{
	return read_books_blocks(collector, &python_lane);
}

int read_python_stacks(struct collector *collector)
{
	return read_books_stacks(collector, &python_lane);
}

/* ---- a snapshot ---- */

void add_python_books_losses(const struct target *target, uint64_t *loss)
{
	struct books_numbers numbers;

	if (!target->python.books)
		return;
	books_read_numbers(target->python.books, &numbers);
	add_books_losses(target->python.books, loss);
	loss[LOSS_python_codes_missing] += numbers.lost[BOOKS_LOST_CODES];
	loss[LOSS_python_blocks_gone] += numbers.lost[BOOKS_UNSEEN_FREES];
	loss[LOSS_tracebacks_limited] += numbers.lost[BOOKS_DEEP];
	loss[LOSS_objects_unreadable] = 0; /* no frame lies in a file; a short program has ended before its hooks' file was opened */
}

/* A program that was started had run, and had blocks, before the hooks were in. */
int describe_unseen_start(struct snapshot_builder *builder, const struct python_unseen *unseen)
{
	const struct number number[] = {
		{ "unseen_start_ns", unseen->ns },
		{ "unseen_start_count", unseen->nr },
		{ "unseen_start_bytes", unseen->bytes },
	};

	return unseen->ns ? describe_numbers(builder, number, unseen->nr == UINT64_MAX ? 1 : ARRAY_SIZE(number)) : 0;
}
