// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/malloc_books.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/build/traceback_versions.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/books_pass.h"
#include "collect/sources/code_list.h"
#include "collect/sources/injection.h"
#include "collect/sources/python_choice.h"
#include "exact/books_reader.h"
#include "exact/known_code.h"
#include "inject/inject.h"
#include "process/proc.h"

#define AWAIT_NS 1000000   /* how often to look for books of a program that has just begun */
#define AWAIT_LATE_NS 100000000
#define BEGUN_NS (10 * SECOND_NS) /* so long it has just begun */
#define LOOK_NS 10000000   /* how often to look at what it wants to know */
#define LOOK_SHARE 3	   /* a look may take 1 / LOOK_SHARE of the time until the next one */

struct malloc_books {
	struct books *books; /* NULL: awaited */
	struct known_code *known;
	struct code_lists lists;
	uint64_t awaited_ns; /* since then */
	uint64_t missed_ns;  /* up to then there is a gap, as there were no books */
	uint64_t look_ns;    /* when to look again */
	uint64_t listed_ns;  /* when its code was read last */
	bool is_due;	     /* its next list */
	bool is_noted;	     /* a note says that it has no books, or that they cannot be written */
};

/* ---- the books ---- */

static struct books *malloc_books_of(const struct target *target)
{
	return target->heap_books.state ? target->heap_books.state->books : NULL;
}

static int begin_malloc_books(struct target *target)
{
	struct malloc_books *state = target->heap_books.state ?: calloc(1, sizeof(*state));

	if (state && !target->heap_books.state)
		state->awaited_ns = state->missed_ns = monotonic_now_ns();
	target->heap_books.state = state;
	return state ? 0 : -ENOMEM;
}

/* Frees the state of a process; NULL is allowed. */
static void malloc_books_free(struct malloc_books *state)
{
	if (!state)
		return;
	known_code__close(state->known);
	books_close(state->books);
	code_lists_release(&state->lists);
	free(state);
}

/* The process waits for two things: an epoch, and a list of its code. 0 or a negative errno: these are no books of its heap. */
static int open_malloc_books(struct malloc_books *state, pid_t pid, const struct inject_books *place, uint32_t frames)
{
	uint64_t now_ns = monotonic_now_ns();
	int fd, err = inject_open_books(pid, place, &fd) ?: books_open(fd, BOOKS_OF_MALLOC, now_ns, &state->books);

	err = err ?: books_tick(state->books, now_ns) ?: known_code__open(state->books, frames, &state->known);
	if (err) {
		books_close(state->books);
		state->books = NULL;
	}
	return err;
}

static bool is_line_of_books(const struct maps_line *line)
{
	static const char path[] = "/memfd:" INJECT_BOOKS_NAME " ";

	return !strncmp(line->path, path, strlen(path));
}

/* The books of a CPython have the same name. */
static bool find_malloc_books(struct malloc_books *state, const struct target *target, uint32_t frames)
{
	pid_t pid = target->identity.pid;
	char *text = proc_text(pid, "maps"), *rest = text, *line;
	struct maps_line parsed;

	while (rest && !state->books && (line = strsep(&rest, "\n"))) {
		if (!maps_parse_line(line, &parsed) || !is_line_of_books(&parsed))
			continue;
		open_malloc_books(state, pid, &(struct inject_books){ parsed.start, parsed.end, parsed.dev, parsed.inode }, frames);
	}
	free(text);
	return state->books;
}

/* ---- its code ---- */

static void note_untold(struct collector *collector, const struct target *target, int err)
{
	struct malloc_books *state = target->heap_books.state;

	if (!state->is_noted)
		notes_add(&collector->notes, "process %d (%s): its books cannot be written (%s): blocks have no traceback where its "
			  "code is not known", target->identity.pid, target->identity.comm, strerror(-err));
	state->is_noted = true;
}

static int tell_of_code(struct collector *collector, struct target *target)
{
	struct malloc_books *state = target->heap_books.state;
	int err = code_lists_publish(&state->lists, state->known, target, &collector->unwind_tables);

	if (err && err != -ENOMEM)
		note_untold(collector, target, err);
	return err == -ENOMEM ? err : 0;
}

/* Called once its mappings have been read, which are new. */
static int attach_malloc_books(struct collector *collector, struct target *target, struct reason *why)
{
	int err = target->heap_books.is_used ? begin_malloc_books(target) : 0;

	(void)why;
	return err ?: malloc_books_of(target) ? tell_of_code(collector, target) : 0;
}

/* probe_new_mappings() comes to attach_malloc_books(). */
static void read_its_code(struct collector *collector, struct target *target)
{
	if (!target->life.has_ended && !target__refresh(target, NULL))
		probe_new_mappings(collector, target);
	else if (!unwind_tables_add(&collector->unwind_tables, &target->mappings))
		tell_of_code(collector, target);
}

static void look_at_books(struct collector *collector, struct target *target)
{
	struct malloc_books *state = target->heap_books.state;
	struct code_news news;

	bool has_news = known_code__news(state->known, &news);

	/* Stacks are in a list as long as they are mapped. */
	state->is_due |= state->lists.stack_nr && news.time_ns - state->listed_ns > SECOND_NS;
	if (code_lists_want(&state->lists, &news) || !(has_news || state->is_due))
		return;
	if (news.has_closed || news.has_copies || news.wanted_code || news.wanted_stack || state->is_due) {
		state->is_due = false;
		state->listed_ns = news.time_ns;
		read_its_code(collector, target);
	}
	known_code__read_copies(state->known);
}

static int fill_native_frames(struct target *target, const struct books_stack *stack, uint64_t id, struct traceback *ret);

static const struct books_lane malloc_lane = {
	.layer = LAYER_HEAP, /* and the domain of the C library's heap */
	.books_of = malloc_books_of,
	.fill = fill_native_frames,
};

/* ---- the poll ---- */

/* A shell, for instance, has become a Python. Its objects are not recorded: the hooks for them go in only when a program starts. */
static void note_python_by_heap(struct collector *collector, const struct target *target)
{
	const struct process_identity *identity = &target->identity;

	if (target->life.exec_cnt && collector->options.domains & COLLECTOR_PYTHON && identity->exe && is_python_path(identity->exe))
		notes_add(&collector->notes, "process %d (%s) has become a Python: its heap is recorded, at C's lines; its objects, at "
			  "Python's lines: 'allocsnap run --exact --domain python'", identity->pid, identity->comm);
}

static uint64_t await_books(struct collector *collector, struct target *target, uint64_t now_ns)
{
	struct malloc_books *state = target->heap_books.state;

	if (!find_malloc_books(state, target, collector->options.traceback_limit))
		return now_ns - state->awaited_ns < BEGUN_NS ? AWAIT_NS : AWAIT_LATE_NS;
	note_python_by_heap(collector, target);
	state->is_due = true;
	look_at_books(collector, target);
	return LOOK_NS;
}

static uint64_t poll_books(struct collector *collector, struct target *target)
{
	struct malloc_books *state;
	uint64_t now_ns = monotonic_now_ns(), wait_ns = LOOK_NS, took_ns;

	if (target->life.has_ended || begin_malloc_books(target))
		return UINT64_MAX;
	state = target->heap_books.state;
	if (now_ns < state->look_ns)
		return state->look_ns - now_ns;
	if (state->books)
		look_at_books(collector, target);
	else
		wait_ns = await_books(collector, target, now_ns);
	took_ns = LOOK_SHARE * (monotonic_now_ns() - now_ns);
	wait_ns = wait_ns > took_ns ? wait_ns : took_ns;
	state->look_ns = monotonic_now_ns() + wait_ns;
	return wait_ns;
}

static uint64_t poll_malloc_books(struct collector *collector)
{
	uint64_t least_ns = keep_births(collector, &malloc_lane), wait_ns;

	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		if (!collector->targets.target[i]->heap_books.is_used)
			continue;
		wait_ns = poll_books(collector, collector->targets.target[i]);
		least_ns = wait_ns < least_ns ? wait_ns : least_ns;
	}
	return least_ns;
}

/* ---- a pass ---- */

/* Its allocations so far are in no books: that is a gap, and it stays open. Injected hooks do not come back after an exec. */
static void note_no_books(struct collector *collector, struct target *target)
{
	struct malloc_books *state = target->heap_books.state;
	bool is_injected = injects_heap_books(&collector->sources->injections, target->identity.pid);
	bool may_come = !target->life.has_ended && !(is_injected && target->life.exec_cnt);
	uint64_t now_ns = monotonic_now_ns();

	if (!state || state->books || (may_come && now_ns - state->awaited_ns < BEGUN_NS))
		return;
	pausing_add_past(&target->budget.own, state->missed_ns, now_ns);
	state->missed_ns = now_ns;
	if (state->is_noted)
		return;
	state->is_noted = true;
	if (is_injected)
		notes_add(&collector->notes, "process %d (%s): the hooks went with the program before its exec, and nothing of its heap is "
			  "recorded any more; 'allocsnap attach --inject=exact' puts them into the new one",
			  target->identity.pid, target->identity.comm);
	else
		notes_add(&collector->notes, "process %d (%s) has not loaded liballocsnap-exact.so%s, or has a malloc of its own in its file, or no room for books of 15 GiB "
			  "of addresses (ulimit -v, -f): nothing of its heap is recorded; instead: 'allocsnap run', or 'allocsnap attach --inject=exact'",
			  target->identity.pid, target->identity.comm, target->life.exec_cnt ? " after its exec" : "");
}

/* A program that has just begun by exec may have ended before it was looked at. */
static void look_before_cut(struct collector *collector)
{
	for (size_t i = 0; i < collector->targets.target_nr; i++) {
		struct target *target = collector->targets.target[i];

		if (target->heap_books.is_used && !begin_malloc_books(target))
			note_no_books(collector, target);
		if (malloc_books_of(target))
			look_at_books(collector, target);
	}
}

static void note_frame(struct traceback *traceback, uint32_t i, uint64_t word, uint64_t next)
{
	uint64_t bit = UINT64_C(1) << i % 64;

	traceback->pc[i] = BOOKS_PC(word);
	traceback->guessed[i / 64] |= word & BOOKS_PC_GUESSED ? bit : 0;
	traceback->exact[i / 64] |= (word | next) & BOOKS_PC_EXACT ? bit : 0; /* a signal handler returns to code that made no call */
}

/* A walk that was too deep has no end. */
static uint32_t end_of_walk(uint32_t end)
{
	return end == UNWIND_BUSY || end >= UNWIND_END_NR ? UNWIND_GOES_ON : end;
}

/*
 * Other code has come to the place of a frame before the process knew: from then on the walk may have been another one. So the
 * frame has no name in blocks of that time, and its callers are not known.
 */
static int unplace_replaced(struct target *target, const uint64_t *frame, uint32_t number, uint64_t id, const struct traceback *traceback)
{
	struct malloc_books *state = target->heap_books.state;
	struct traceback unsure = *traceback;
	uint32_t first;
	uint64_t since_ns = known_code__unsure_since(state->known, number, frame, traceback->nframe, &first);

	if (!since_ns)
		return 0;
	unsure.nframe = unsure.total_nframe = first + 1;
	unsure.end = UNWIND_GOES_ON;
	return versions_unplace(&target->tracebacks, &target->mappings, id, &unsure, books_epoch_of(state->books, since_ns));
}

/* The frames of a node have one meaning, the one of its time: addresses may mean other code later. */
static int fill_native_frames(struct target *target, const struct books_stack *stack, uint64_t id, struct traceback *ret)
{
	struct known_code *known = target->heap_books.state->known;
	const uint64_t *frame = stack->frame;
	uint64_t number = BOOKS_END_NUMBER(stack->end), time_ns;
	uint32_t end = BOOKS_END_OF(stack->end);
	bool is_copy = end == BOOKS_END_COPIED;
	int err;

	ret->nframe = stack->kept_nr;
	ret->total_nframe = stack->frame_nr;
	if (is_copy) {
		const struct copied_stack *copy = known_code__find_copy(known, BOOKS_COPY_NUMBER(stack->end), &frame);

		if (!copy)
			return 1;
		end = copy->end;
		time_ns = copy->time_ns;
		ret->nframe = copy->frame_nr;
		ret->total_nframe = copy->total_nr;
	} else {
		time_ns = known_code__time_of(known, number);
	}
	ret->end = end_of_walk(end);
	for (uint32_t i = 0; i < ret->nframe; i++)
		note_frame(ret, i, frame[i], i + 1 < ret->nframe ? frame[i + 1] : 0);
	err = versions_resolve_then(&target->tracebacks, &target->mappings, id, ret, time_ns);
	return err || is_copy ? err : unplace_replaced(target, frame, number, id, ret);
}

static int read_malloc_blocks(struct collector *collector)
{
	return read_books_blocks(collector, &malloc_lane);
}

/* Copies of stacks come before the blocks that have them. */
static int read_malloc_stacks(struct collector *collector)
{
	look_before_cut(collector);
	return read_books_stacks(collector, &malloc_lane);
}

/* ---- the source ---- */

static int choose_malloc_books(struct collector *collector, struct reason *why)
{
	const struct collector_options *options = &collector->options;
	const struct {
		bool is_given;
		const char *name;
	} rows[] = {
		{ options->follow_forks, "--follow-forks" }, { options->system_wide, "system-wide recordings" },
		{ options->sample_bytes, "--sample" }, { options->max_overhead, "--max-overhead" },
		{ options->run_interval_bytes, "--fast" }, { options->unwinder != COLLECTOR_UNWIND_AUTO, "--unwind" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && options->run_exact; i++)
		if (rows[i].is_given)
			return reason_set(why, -EINVAL, "--exact and %s exclude each other", rows[i].name);
	return options->run_exact && !books_can_cut() ?
		       reason_set(why, -ENOTSUP, "--exact: this kernel makes no barrier for all threads (membarrier, nohz_full)") : 0;
}

static void forget_malloc_books(struct target *target)
{
	malloc_books_free(target->heap_books.state);
	target->heap_books.state = NULL;
}

/* The next program's first blocks are in no books until it has some. Without memory for that, a later look begins it. */
static void await_next_program(struct target *target)
{
	forget_malloc_books(target);
	if (target->heap_books.is_used)
		begin_malloc_books(target);
}

static void end_malloc_books(struct collector *collector, struct target *target)
{
	(void)collector;
	if (malloc_books_of(target))
		books_turn_off(malloc_books_of(target));
	forget_malloc_books(target);
}

static bool malloc_books_are_used(const struct target *target)
{
	return target->heap_books.is_used;
}

static int describe_malloc_books(struct snapshot_builder *builder, const struct target *target, const struct settings *settings)
{
	(void)settings;
	return describe_books(builder, malloc_books_of(target));
}

static void add_malloc_losses(const struct target *target, uint64_t *loss)
{
	struct books *books = malloc_books_of(target);
	struct books_numbers numbers;

	if (!books)
		return;
	books_read_numbers(books, &numbers);
	add_books_losses(books, loss);
	loss[LOSS_blocks_replaced] += numbers.lost[BOOKS_UNSEEN_FREES];
}

const struct block_source malloc_books_source = {
	.choose = choose_malloc_books,
	.attach = attach_malloc_books,
	.forget_program = await_next_program,
	.end = end_malloc_books,
	.keep_cost = poll_malloc_books,
	.before_cut = look_before_cut,
	.after_read = read_malloc_blocks,
	.add_tracebacks = read_malloc_stacks,
	.is_used = malloc_books_are_used,
	.hides_heap = malloc_books_are_used,
	.describe = describe_malloc_books,
	.add_losses = add_malloc_losses,
};
