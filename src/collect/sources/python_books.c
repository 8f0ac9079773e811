// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_books.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect/build/build_metadata.h"
#include "collect/sources/block_sources.h"
#include "exact/books_reader.h"
#include "process/proc.h"
#include "shared/python_calls.h"
#include "shared/unwind_types.h"
#include "snapshot.h"

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
	int err = books_open(fd, monotonic_now_ns(), &books.books);

	books.looked_ns = monotonic_now_ns();
	for (int i = 0; i < PYTHON_WORDS && !err; i++)
		err = read_table_word(new->pid, new->word[i].address, &books.word[i].put);
	if (!err && new->tracer.address)
		err = read_table_word(new->pid, new->tracer.address, &books.tracer.put);
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

/* A thread that runs: its number as the C library of the process has it, and in this PID namespace. */
struct running_thread {
	uint32_t own;
	pid_t tid;
};

struct joining {
	struct collector *collector;
	struct target *target;
	uint64_t image;
	uint64_t allocated_bytes;
	uint64_t live_bytes, live_nr; /* of all sizes */
	struct running_thread *thread; /* sorted by own */
	size_t thread_nr, thread_alloc;
};

static int by_own_tid(const void *a, const void *b)
{
	uint32_t x = ((const struct running_thread *)a)->own, y = ((const struct running_thread *)b)->own;

	return (x > y) - (x < y);
}

static int read_running_threads(struct joining *joining)
{
	pid_t pid = joining->target->identity.pid;
	DIR *dir = joining->target->life.has_ended ? NULL : proc_open_threads(pid);
	struct running_thread thread;
	int err = 0;

	while (dir && !err && (thread.tid = proc_next_thread(dir)))
		if ((thread.own = proc_own_tid(pid, thread.tid)))
			err = array_push(joining, thread, thread);
	if (dir)
		closedir(dir);
	if (joining->thread_nr)
		qsort(joining->thread, joining->thread_nr, sizeof(*joining->thread), by_own_tid);
	return err;
}

static const struct running_thread *find_running(const struct joining *joining, uint32_t own)
{
	const struct running_thread key = { .own = own };

	return joining->thread_nr ? bsearch(&key, joining->thread, joining->thread_nr, sizeof(key), by_own_tid) : NULL;
}

/* Threads that have ended keep the number that they had for themselves. */
static pid_t tid_of_block(const struct joining *joining, uint32_t own)
{
	const struct running_thread *thread = find_running(joining, own);

	return thread ? thread->tid : (pid_t)own;
}

/* The traceback of a node, among the ones of all processes. */
static uint64_t traceback_id(const struct joining *joining, uint32_t node)
{
	return TRACEBACK_OF_BOOKS | joining->image << BLOCK_NODE_BITS | node;
}

static int join_block(void *joining_, const struct books_block *block)
{
	struct joining *joining = joining_;
	const struct block_key key = block_key_of(block->address, joining->image, LAYER_POOL);
	const struct block joined = {
		.size = block->size,
		.traceback = block->node == BOOKS_NO_NODE ? 0 : traceback_id(joining, block->node),
		.birth_ns = block->birth_ns,
		.thread = tid_of_block(joining, block->tid),
		.domain = DOMAIN_PYTHON,
	};

	const struct collector_options *options = &joining->collector->options;

	joining->live_bytes += block->size;
	joining->live_nr++;
	if (block->size < options->min_size || (options->max_size && block->size > options->max_size))
		return 0;
	return drained_blocks_add(&joining->collector->pass.drain.blocks, &key, &joined);
}

/* The kernel side counts its own numbers of code objects, from 1 on. */
#define CODES_OF_BOOKS (1u << 30)

static uint64_t frame_of_books(uint64_t frame)
{
	uint32_t code = frame >> 32;

	return PYTHON_FRAME_WORD(code == PYTHON_CODE_UNKNOWN ? code : code | CODES_OF_BOOKS, frame);
}

static int join_stack(void *joining_, const struct books_stack *stack)
{
	struct joining *joining = joining_;
	struct drain *drain = &joining->collector->pass.drain;
	uint32_t limit = joining->collector->options.traceback_limit;
	uint64_t id = traceback_id(joining, stack->id);
	struct traceback traceback = {
		.churn = { stack->totals.allocations, stack->totals.allocated_bytes, stack->totals.temporary,
			   stack->totals.temporary_bytes },
		.image = joining->image,
		.nframe = stack->frame_nr < limit ? stack->frame_nr : limit,
		.total_nframe = stack->frame_nr,
		.end = UNWIND_ROOT,
		.by_tables = true,
	};

	for (uint32_t i = 0; i < traceback.nframe; i++)
		traceback.pc[i] = frame_of_books(stack->frame[i]);
	if (!stack->frame_nr) { /* a thread without Python code: tracemalloc has one unknown frame */
		traceback.pc[0] = PYTHON_FRAME_WORD(PYTHON_CODE_UNKNOWN, 0);
		traceback.nframe = traceback.total_nframe = 1;
	}
	joining->allocated_bytes += stack->totals.allocated_bytes;
	return map_copy_add(&drain->tracebacks, &id, &traceback);
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

static int join_code(void *joining_, const struct books_code *code)
{
	const struct joining *joining = joining_;
	const struct python_code_record record = {
		.id = code->id | CODES_OF_BOOKS,
		.first_line = code->first_line,
		.file = { .address = 0, .bytes = code->file_bytes, .state = code->file_state },
		.name = { .address = code->file_bytes, .bytes = code->name_bytes, .state = code->name_state },
		.lines = { .address = code->file_bytes + code->name_bytes, .bytes = code->line_bytes },
	};
	int err = python_codes_add(&joining->target->python.codes, &record, sizeof(record), read_behind, is_always_same,
				   (void *)code);

	return err == -ENOMEM ? err : 0; /* frames of others have no name, which is counted */
}

/* The numbers of the kernel's account are of what libraries report. Both together have no peak that is known. */
static void join_numbers(struct target *target, const struct joining *joining)
{
	struct books_numbers numbers;
	uint64_t *counter = target->drained.account.counter;

	books_read_numbers(target->python.books, &numbers);
	counter[COUNTER_allocations] += numbers.allocations;
	counter[COUNTER_frees] += numbers.frees;
	counter[COUNTER_unknown_frees] += numbers.unknown_frees;
	counter[COUNTER_current_bytes] += joining->live_bytes;
	counter[COUNTER_current_blocks] += joining->live_nr;
	counter[COUNTER_peak_bytes] = counter[COUNTER_peak_blocks] = 0;
	target->drained.cost.cost_ns += numbers.cost_ns;
	target->drained.is_of_source = true;
}

static bool is_own_tid_running(void *joining, uint32_t own)
{
	return find_running(joining, own);
}

/* A process that cannot be read at this moment has no snapshot of this pass. */
static int put_off(struct collector *collector, struct target *target, int err)
{
	if (err != -EAGAIN && err != -ENOSPC && err != -ENOMEM)
		return err;
	notes_add(&collector->notes, "process %d (%s): no snapshot now, %s", target->identity.pid, target->identity.comm,
		  err == -ENOMEM ? "as its books take more memory than there is" :
		  err == -ENOSPC ? "as its books have room for no more: attach again" :
		  "as a thread has been in a call of its allocator for so long (is it stopped, or throttled?)");
	target->snapshots.is_unsaved = false;
	return 0;
}

/* A process that has ended writes nothing any more. */
static int read_books_of(struct collector *collector, struct target *target)
{
	struct joining joining = { .collector = collector, .target = target, .image = target->drained.account.image };
	struct books *books = target->python.books;
	int err = read_running_threads(&joining);

	if (!target->life.has_ended)
		check_hooks(collector, target, find_process_books(&collector->sources->python_books, target->identity.pid));

	/* Before the cut: a slot is free for a thread that begins later. */
	if (!err && joining.thread_nr)
		books_free_threads(books, is_own_tid_running, &joining);
	err = err ?: books_cut(books, monotonic_now_ns(), target->life.has_ended);
	err = err ?: books_read_blocks(books, join_block, &joining);
	err = err ?: books_read_codes(books, join_code, &joining);
	if (!err)
		join_numbers(target, &joining);
	free(joining.thread);
	return put_off(collector, target, err);
}

int read_python_books(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (collector->targets.target[i]->python.books)
			err = read_books_of(collector, collector->targets.target[i]);
	return err;
}

static int read_stacks_of(struct collector *collector, struct target *target)
{
	struct joining joining = { .collector = collector, .target = target, .image = target->drained.account.image };
	uint64_t *counter = target->drained.account.counter;
	int err = books_read_stacks(target->python.books, collector->options.traceback_limit, join_stack, &joining);

	counter[COUNTER_allocated_bytes] += joining.allocated_bytes;
	counter[COUNTER_freed_bytes] = counter[COUNTER_allocated_bytes] - counter[COUNTER_current_bytes];
	return err;
}

int read_python_stacks(struct collector *collector)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (collector->targets.target[i]->python.books)
			err = read_stacks_of(collector, collector->targets.target[i]);
	return err;
}

/* ---- a snapshot ---- */

void add_books_losses(const struct target *target, uint64_t *loss)
{
	struct books_numbers numbers;

	if (!target->python.books)
		return;
	books_read_numbers(target->python.books, &numbers);
	loss[LOSS_threads_dropped] += numbers.lost[BOOKS_LOST_THREADS];
	loss[LOSS_blocks_dropped] += numbers.lost[BOOKS_LOST_BLOCKS];
	loss[LOSS_tracebacks_dropped] += numbers.lost[BOOKS_LOST_TRACEBACKS];
	loss[LOSS_python_codes_missing] += numbers.lost[BOOKS_LOST_CODES];
	loss[LOSS_blocks_not_handed] += numbers.lost[BOOKS_LOST_HANDED];
	loss[LOSS_python_blocks_gone] += numbers.lost[BOOKS_UNSEEN_FREES];
	loss[LOSS_tracebacks_limited] += numbers.lost[BOOKS_DEEP];
}

int describe_books(struct snapshot_builder *builder, const struct target *target)
{
	struct books_numbers numbers;

	if (!target->python.books)
		return 0;
	books_read_numbers(target->python.books, &numbers);
	return describe_numbers(builder, (const struct number[]){ { "books_bytes", numbers.file_bytes },
								  { "books_node_count", numbers.node_nr } }, 2);
}
