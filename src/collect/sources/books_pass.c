// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/books_pass.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "collect/build/build_metadata.h"
#include "collect/build/resolve_tracebacks.h"
#include "collect/recording/collector.h"
#include "exact/books_reader.h"
#include "process/proc.h"
#include "shared/unwind_types.h"
#include "snapshot.h"

/* ---- threads ---- */

/* A thread that runs: its number as the C library of the process has it, and in this PID namespace. */
struct running_thread {
	uint32_t own;
	pid_t tid;
};

struct joining {
	struct collector *collector;
	const struct books_lane *lane;
	struct target *target;
	struct books *books;
	uint64_t image;
	struct churn churn; /* of all tracebacks */
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

/* ---- blocks ---- */

/* The traceback of a node, among the ones of all processes. */
static uint64_t traceback_id(const struct joining *joining, uint32_t node)
{
	return TRACEBACK_OF_BOOKS | joining->image << BLOCK_NODE_BITS | node;
}

static int join_block(void *joining_, const struct books_block *block)
{
	struct joining *joining = joining_;
	const struct block_key key = block_key_of(block->address, joining->image, joining->lane->layer);
	const struct block joined = {
		.size = block->size,
		.traceback = block->node == BOOKS_NO_NODE ? 0 : traceback_id(joining, block->node),
		.birth_ns = block->birth_ns,
		.thread = tid_of_block(joining, block->tid),
		.domain = joining->lane->domain,
	};

	const struct collector_options *options = &joining->collector->options;

	joining->live_bytes += block->size;
	joining->live_nr++;
	if (block->size < options->min_size || (options->max_size && block->size > options->max_size))
		return 0;
	return drained_blocks_add(&joining->collector->pass.drain.blocks, &key, &joined);
}

/* The numbers of the kernel's account are of what libraries report. Both together have no peak that is known. */
static void join_numbers(struct target *target, const struct joining *joining)
{
	struct books_numbers numbers;
	uint64_t *counter = target->drained.account.counter;

	books_read_numbers(joining->books, &numbers);
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

static struct joining joining_of(struct collector *collector, const struct books_lane *lane, struct target *target)
{
	return (struct joining){
		.collector = collector, .lane = lane, .target = target, .books = lane->books_of(target),
		.image = target->drained.account.image,
	};
}

/* A process that has ended writes nothing any more. */
static int read_blocks_of(struct collector *collector, const struct books_lane *lane, struct target *target)
{
	struct joining joining = joining_of(collector, lane, target);
	int err = read_running_threads(&joining);

	if (lane->before_cut)
		lane->before_cut(collector, target);

	/* Before the cut: a slot is free for a thread that begins later. */
	if (!err && joining.thread_nr)
		books_free_threads(joining.books, is_own_tid_running, &joining);
	err = err ?: books_cut(joining.books, monotonic_now_ns(), target->life.has_ended);
	err = err ?: books_read_blocks(joining.books, join_block, &joining);
	if (!err && lane->after_read)
		err = lane->after_read(collector, target);
	if (!err)
		join_numbers(target, &joining);
	free(joining.thread);
	return put_off(collector, target, err);
}

int read_books_blocks(struct collector *collector, const struct books_lane *lane)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (lane->books_of(collector->targets.target[i]))
			err = read_blocks_of(collector, lane, collector->targets.target[i]);
	return err;
}

/* ---- tracebacks ---- */

static int join_stack(void *joining_, const struct books_stack *stack)
{
	struct joining *joining = joining_;
	uint64_t id = traceback_id(joining, stack->id);
	struct traceback traceback = {
		.churn = { stack->totals.allocations, stack->totals.allocated_bytes, stack->totals.temporary,
			   stack->totals.temporary_bytes },
		.image = joining->image,
		.by_tables = true,
	};
	int err = joining->lane->fill(joining->target, stack, id, &traceback);

	joining->churn = churn_sum(&joining->churn, &traceback.churn);
	return err ? err > 0 ? 0 : err : map_copy_add(&joining->collector->pass.drain.tracebacks, &id, &traceback);
}

static int read_stacks_of(struct collector *collector, const struct books_lane *lane, struct target *target)
{
	struct joining joining = joining_of(collector, lane, target);
	uint64_t *counter = target->drained.account.counter;
	int err = books_read_stacks(joining.books, collector->options.traceback_limit, join_stack, &joining);

	counter[COUNTER_allocated_bytes] += joining.churn.allocated_bytes;
	counter[COUNTER_freed_bytes] = counter[COUNTER_allocated_bytes] - counter[COUNTER_current_bytes];
	counter[COUNTER_temporary_blocks] += joining.churn.temporary;
	counter[COUNTER_temporary_bytes] += joining.churn.temporary_bytes;
	return err;
}

int read_books_stacks(struct collector *collector, const struct books_lane *lane)
{
	int err = 0;

	for (size_t i = 0; i < collector->targets.target_nr && !err; i++)
		if (lane->books_of(collector->targets.target[i]))
			err = read_stacks_of(collector, lane, collector->targets.target[i]);
	return err;
}

/* ---- between passes ---- */

#define BIRTHS_NS SECOND_NS

/* Where there are no more epochs, the next pass makes room for some. */
uint64_t keep_births(struct collector *collector, const struct books_lane *lane)
{
	uint64_t now_ns = monotonic_now_ns(), wait_ns = UINT64_MAX;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		const struct target *target = collector->targets.target[i];
		struct books *books = target->life.has_ended ? NULL : lane->books_of(target);

		if (!books)
			continue;
		wait_ns = BIRTHS_NS;
		if (now_ns - books_epoch_began(books) >= BIRTHS_NS)
			books_tick(books, now_ns);
	}
	return wait_ns;
}

/* ---- a snapshot ---- */

void add_books_losses(struct books *books, uint64_t *loss)
{
	struct books_numbers numbers;

	if (!books)
		return;
	books_read_numbers(books, &numbers);
	loss[LOSS_threads_dropped] += numbers.lost[BOOKS_LOST_THREADS];
	loss[LOSS_blocks_dropped] += numbers.lost[BOOKS_LOST_BLOCKS];
	loss[LOSS_tracebacks_dropped] += numbers.lost[BOOKS_LOST_TRACEBACKS];
	loss[LOSS_blocks_not_handed] += numbers.lost[BOOKS_LOST_HANDED];
	loss[LOSS_calls_unreturned] += numbers.unreturned_nr;
	loss[LOSS_blocks_amid_others] += numbers.lost[BOOKS_LOST_AMID];
}

int describe_books(struct snapshot_builder *builder, struct books *books)
{
	struct books_numbers numbers;

	if (!books)
		return 0;
	books_read_numbers(books, &numbers);
	return describe_numbers(builder, (const struct number[]){ { "books_bytes", numbers.file_bytes },
								  { "books_node_count", numbers.node_nr } }, 2);
}
