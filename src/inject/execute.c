// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "exact/books.h"
#include "helper/channel.h"
#include "inject/hooks.h"
#include "inject/inject_private.h"
#include "inject/placing.h"
#include "inject/remote_call.h"
#include "inject/sampler_image.h"
#include "inject/stopped_threads.h"
#include "process/proc.h"
#include "sampler/sampler_info.h"

#define TRIES_MAX 50
#define PAUSE_NS 2000000 /* between two tries */
#define EXACT_ALLOCATORS_MAX 3 /* REMOTE_UNDO_MAX has room for so many, and books */

/* The result of one try, which a child makes. */
struct outcome {
	struct inject_times times;
	struct reason why;
	struct placed placed[INJECT_ALLOCATORS_MAX];
	bool is_probed[INJECT_ALLOCATORS_MAX][INJECT_FUNCTIONS_MAX];
	struct inject_python python;
};

/* A sampler for each allocator of a plan, or the hooks of a CPython. */
struct executing {
	pid_t pid;
	uint64_t start_time;
	struct inject_plan *plan;
	struct inject_python *python;
	const struct inject_wait *wait;
	const struct inject_options *options;
	enum inject_kind kind;
	struct malloc_hooks exact; /* of INJECT_MALLOC_HOOKS */
	struct reason *why;
	uint64_t until_ns;
	struct call_gate gate;
	struct injected_file file;
	uint32_t placing_nr, allocator_nr;
	struct placing placing[INJECT_ALLOCATORS_MAX];
	struct target_maps maps;
	struct newest_process newest;
	struct stopped_threads threads;
	struct remote_caller caller;
	int mem_fd;
	int end[2]; /* for hooks: of a channel, ours and the tracer's */
	bool is_let_go;
	int books_fd;
};

/* ---- this process and the tracer ---- */

enum tracer_message {
	TRACER_IS_READY,
	TRACER_MAY_BEGIN,
	TRACER_BOOKS, /* with their descriptor: the program may end before this process could open them */
};

static bool holds_process(const struct executing *executing)
{
	return executing->wait && !executing->is_let_go;
}

/* In the tracer: the caller still traces the threads. */
static int await_threads(const struct executing *executing)
{
	const struct channel to = { .fd = executing->end[1] };
	struct message head;

	return !holds_process(executing) ? 0 :
	       channel__send(&to, TRACER_IS_READY, NULL, 0, -1) ?: channel__head(&to, &head, NULL);
}

/* In this process. The time between lies before the program's own begin, so it must be short: the tracer waits already. */
static void hand_threads_over(void *argument)
{
	struct executing *executing = argument;
	const struct channel to = { .fd = executing->end[0] };
	struct message head;

	close(executing->end[1]);
	executing->end[1] = -1;
	if (!holds_process(executing))
		return;
	channel__head(&to, &head, NULL); /* or it has ended */
	executing->wait->let_go(executing->wait->what);
	executing->is_let_go = true;
	channel__send(&to, TRACER_MAY_BEGIN, NULL, 0, -1);
}

static struct inject_books books_of(const struct placed *placed)
{
	return (struct inject_books){
		.start = placed->books_start, .end = placed->books_start ? placed->books_start + BOOKS_BYTES : 0,
		.dev = placed->books_dev, .inode = placed->books_inode, .fd = -1,
	};
}

static int hand_books_over(const struct executing *executing)
{
	const struct channel to = { .fd = executing->end[1] };
	const struct inject_books books = books_of(&executing->placing[0].placed);
	int fd, err = inject_open_books(executing->pid, &books, &fd);

	err = err ?: channel__send(&to, TRACER_BOOKS, NULL, 0, fd);
	return err ? reason_set(executing->why, -EAGAIN, "its books cannot be opened: %s", strerror(-err)) : 0;
}

/* ---- before the threads are stopped ---- */

static int place_of_allocator(struct executing *executing, uint32_t i, uint64_t *ret)
{
	struct inject_allocator *allocator = &executing->plan->allocator[i];
	struct planned_allocator *planned = &executing->plan->details->allocator[i];
	uint64_t bytes = sampler_image_room(&executing->file, allocator);

	planned->low = UINT64_MAX;
	planned->high = 0;
	for (uint32_t k = 0; k < allocator->page_nr; k++) {
		uint64_t at = allocator->page[k].address;

		planned->low = at < planned->low ? at : planned->low;
		planned->high = at + PAGE_BYTES > planned->high ? at + PAGE_BYTES : planned->high;
	}
	*ret = target_maps_gap(&executing->maps, executing->pid, planned->low, planned->high, bytes);
	if (!*ret)
		return reason_set(executing->why, -ENOTSUP, "no room for the sampler near %s", allocator->path);
	return target_maps_reserve(&executing->maps, *ret, bytes);
}

/* Anywhere: rather near an address, on its side of the break. */
static uint64_t find_near_room(const struct executing *executing, uint64_t near, uint64_t bytes)
{
	return target_maps_room(&executing->maps, executing->pid, near, bytes) ?:
	       target_maps_room(&executing->maps, executing->pid, UINT64_MAX, bytes);
}

static int place_of_books(struct executing *executing)
{
	executing->exact = (struct malloc_hooks){
		.books = find_near_room(executing, executing->plan->allocator[0].page[0].address, BOOKS_BYTES),
		.main_stack_end = proc_auxv(executing->pid, AT_RANDOM),
		.may_call = !is_any_thread_filtered(executing->pid),
	};
	if (executing->allocator_nr > EXACT_ALLOCATORS_MAX)
		return reason_set(executing->why, -ENOTSUP, "it has more than %d allocators", EXACT_ALLOCATORS_MAX);
	if (!executing->exact.books)
		return reason_set(executing->why, -ENOTSUP, "no room for the books of its blocks");
	if (!executing->exact.main_stack_end)
		return reason_set(executing->why, -ENOTSUP, "it does not say where its stack is");
	return target_maps_reserve(&executing->maps, executing->exact.books, BOOKS_BYTES);
}

static int build_samplers(struct executing *executing)
{
	struct sampler_image_options image = {
		.interval = executing->options->interval ?: SAMPLER_INTERVAL_DEFAULT,
		.exact = executing->options->is_exact ? &executing->exact : NULL,
	};
	int err = 0;

	if (image.interval > SAMPLER_INTERVAL_MAX)
		return reason_set(executing->why, -EINVAL, "the interval is too large");
	for (uint32_t i = 0; i < executing->allocator_nr; i++)
		image.has_unseen_new |= executing->plan->allocator[i].has_unseen_new;
	if (executing->options->is_exact)
		err = place_of_books(executing);
	for (uint32_t i = 0; i < executing->allocator_nr && !err; i++) {
		err = place_of_allocator(executing, i, &image.start);
		image.first_start = i ? image.first_start : image.start;
		err = err ?: sampler_image_build(&executing->file, &executing->plan->allocator[i],
						 &executing->plan->details->allocator[i], &image, &executing->placing[i].image,
						 executing->why);
	}
	return err;
}

static int build_hooks(struct executing *executing)
{
	uint64_t start = find_near_room(executing, executing->python->word[0][0].address, hooks_image_room(&executing->file));

	if (!start)
		return reason_set(executing->why, -ENOTSUP, "no room for the books of its blocks");
	return hooks_image_build(&executing->file, executing->python, start, &executing->placing[0].image, executing->why);
}

static int build_images(struct executing *executing)
{
	pid_t owner = executing->options->owner ?: getpid();
	uint64_t owner_start = 0;
	int err = proc_start_time(owner, &owner_start);

	if (err)
		return reason_set(executing->why, err, "process %d has ended", owner);
	for (uint32_t i = 0; i < executing->placing_nr; i++)
		injected_image_release(&executing->placing[i].image);
	err = executing->python ? build_hooks(executing) : build_samplers(executing);
	for (uint32_t i = 0; i < executing->placing_nr && !err; i++) {
		executing->placing[i].image.table->owner = owner;
		executing->placing[i].image.table->owner_start_time = owner_start;
	}
	return err;
}

static int open_injected_process(struct executing *executing)
{
	char path[64];
	uint64_t start_time = 0;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/mem", executing->pid);
	executing->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (executing->mem_fd < 0)
		return reason_set(executing->why, errno == EACCES ? -EPERM : errno == ENOENT ? -ESRCH : -errno, "%s: %s", path,
				  strerror(errno));
	err = proc_start_time(executing->pid, &start_time);
	if (err || start_time != executing->start_time)
		return reason_set(executing->why, -ESRCH, "process %d has ended", executing->pid);
	executing->newest = newest_process();
	return check_target_process(executing->pid, executing->why) ?: check_shared_memory(executing->pid, executing->why);
}

/* ---- while they are stopped ---- */

static int check_room_is_free(struct executing *executing, uint32_t i)
{
	const struct injected_table *table = executing->placing[i].image.table;

	if (target_maps_are_free(&executing->maps, table->start, table->end) &&
	    (!has_books_apart(table) || target_maps_are_free(&executing->maps, table->books_start, table->books_end)))
		return 0;
	return reason_set(executing->why, -EBUSY, "the room near %s is taken again and again", executing->placing[i].path);
}

/* No other mappings, no other code. */
static int check_allocator_holds(struct executing *executing, uint32_t i)
{
	struct inject_allocator *allocator = &executing->plan->allocator[i];

	for (uint32_t k = 0; k < allocator->page_nr; k++) {
		const struct maps_line *line = target_maps_find(&executing->maps, allocator->page[k].address);

		if (!line || line->inode != allocator->inode || line->dev != allocator->dev || strcmp(line->perms, "r-xp") ||
		    allocator->page[k].address - line->start + line->offset != allocator->page[k].offset)
			return reason_set(executing->why, -EAGAIN, "%s has just been mapped anew", allocator->path);
	}
	return check_code_pages(executing->mem_fd, executing->plan->details->allocator[i].original, allocator, executing->why);
}

/* Fills in the settings that are known only now. */
static int fill_malloc_hooks(struct executing *executing)
{
	const struct injected_file *file = &executing->file;
	uint64_t at = injected_file_symbol(file, "malloc_hooks", NULL);
	struct malloc_hooks *hooks;

	for (size_t i = 0; i < executing->threads.thread_nr; i++)
		if (executing->threads.thread[i].tid == executing->pid)
			executing->exact.main_pointer = executing->threads.thread[i].registers.fs_base;
	for (uint32_t i = 0; i < executing->placing_nr; i++) {
		hooks = injected_image_at(&executing->placing[i].image, file, at);
		if (!hooks)
			return -EIO;
		*hooks = executing->exact;
	}
	return 0;
}

/* The plan must still hold. */
static int check_plan_holds(struct executing *executing)
{
	int err = 0;

	for (uint32_t i = 0; i < executing->placing_nr && !err; i++)
		err = check_room_is_free(executing, i);
	for (uint32_t i = 0; i < executing->allocator_nr && !err; i++)
		err = check_allocator_holds(executing, i);
	if (executing->python && !err)
		err = check_hooks_hold(executing->python, &executing->threads, &executing->maps, executing->mem_fd, executing->why);
	if (executing->kind == INJECT_MALLOC_HOOKS && !err)
		err = check_malloc_hooks_hold(&executing->threads, executing->mem_fd, &executing->exact.tid_at, executing->why) ?:
		      fill_malloc_hooks(executing);
	return err ?: check_thread_pointers(&executing->threads, executing->mem_fd, executing->why);
}

static bool is_amid_jump_of(const struct inject_allocator *allocator, const struct planned_allocator *planned,
			    uint64_t address)
{
	for (uint32_t i = 0; i < allocator->function_nr; i++)
		if (address - planned->function[i].address - 1 < entry_patch_moved_bytes(&planned->function[i].patch) - 1)
			return true;
	return false;
}

/* Whether an address lies amid the bytes that a jump replaces. */
static bool is_amid_jump(uint64_t address, const void *context)
{
	const struct executing *executing = context;

	for (uint32_t i = 0; i < executing->allocator_nr; i++) {
		const struct planned_allocator *planned = &executing->plan->details->allocator[i];

		if (address - planned->low < planned->high - planned->low &&
		    is_amid_jump_of(&executing->plan->allocator[i], planned, address))
			return true;
	}
	return false;
}

/* A thread amid the bytes that will be replaced goes on in their copy. */
static int move_threads(struct executing *executing)
{
	for (size_t i = 0; i < executing->threads.thread_nr; i++) {
		struct stopped_thread *thread = &executing->threads.thread[i];
		uint64_t to = 0;

		if (!is_amid_jump(thread->registers.rip, executing))
			continue;
		for (uint32_t k = 0; k < executing->placing_nr && !to; k++) {
			const struct injected_table *table = executing->placing[k].image.table;

			for (uint64_t m = 0; m < table->moved_nr; m++)
				if (table->moved[m].from == thread->registers.rip)
					to = table->moved[m].to;
		}
		if (!to)
			return reason_set(executing->why, -EAGAIN, "thread %d is at no instruction", thread->tid);
		thread->registers.rip = to;
		thread->has_moved = true;
		if (remote_caller_set_registers(&executing->caller, thread))
			return reason_set(executing->why, -EAGAIN, "thread %d is ending", thread->tid);
		pass_moment("a thread moved");
	}
	return 0;
}

static void move_threads_back(struct executing *executing)
{
	for (size_t i = 0; i < executing->threads.thread_nr; i++) {
		struct stopped_thread *thread = &executing->threads.thread[i];

		if (!thread->has_moved)
			continue;
		for (uint32_t k = 0; k < executing->placing_nr && thread->has_moved; k++) {
			const struct injected_table *table = executing->placing[k].image.table;

			for (uint64_t m = 0; m < table->moved_nr; m++)
				if (table->moved[m].to == thread->registers.rip) {
					thread->registers.rip = table->moved[m].from;
					thread->has_moved = false;
				}
		}
		remote_caller_set_registers(&executing->caller, thread);
	}
}

/* All steps that change the process, in the order in which none of them leaves it in a state that is wrong. */
static int change_all(struct executing *executing)
{
	uint32_t nr = executing->placing_nr;
	struct remote_caller *caller = &executing->caller;
	struct placing *placing = executing->placing;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++)
		err = place(&placing[i], caller, executing->pid, executing->why);
	if (!err && keep_mapped(placing, nr, caller))
		err = reason_set(executing->why, -EIO, "its stack cannot be written");
	for (uint32_t i = 0; i < nr && !err; i++)
		err = exchange_pages(&placing[i], caller, executing->why);
	err = err ?: move_threads(executing);
	if (!err)
		err = switch_hooks_on(&placing[0], caller, executing->why);
	for (uint32_t i = 0; i < nr && !err; i++)
		err = write_jumps(&placing[i], caller, executing->why) ?: write_words(&placing[i], caller, executing->why);
	return err;
}

static int place_all(struct executing *executing, enum inject_change *ret_change)
{
	uint32_t nr = executing->placing_nr;
	struct remote_caller *caller = &executing->caller;
	bool is_as_it_was = true;
	int err = change_all(executing);

	for (uint32_t i = 0; i < nr && err; i++) /* if that fails, the process goes on with what it has */
		is_as_it_was &= unwrite_words(&executing->placing[i], caller) && unexchange_pages(&executing->placing[i], caller);
	if (err && is_as_it_was)
		move_threads_back(executing);
	is_as_it_was &= end_placing(executing->placing, nr, caller, err && is_as_it_was);
	*ret_change = !err || !is_as_it_was ? INJECT_LEFT : caller->call_nr ? INJECT_TAKEN_BACK : INJECT_UNCHANGED;
	return check_caller_ran(caller, executing->why) ?: err;
}

/* All that must hold, before anything is changed. -EBUSY: a thread would have to go on a little. */
static int check_before_change(struct executing *executing)
{
	const struct stack_search search = { is_amid_jump, executing };
	struct mappings_needed needed = mappings_to_eject();
	pid_t tid;
	int err = check_plan_holds(executing) ?: check_new_sharers(executing->pid, &executing->newest, executing->why);

	for (uint32_t i = 0; i < executing->placing_nr; i++)
		add_mappings_needed(&executing->file, executing->placing[i].image.table, &needed);
	err = err ?: check_room_for_mappings(executing->pid, &executing->maps, &needed, executing->why);
	for (size_t i = 0; i < executing->threads.thread_nr && !err; i++)
		if (is_amid_jump(executing->threads.thread[i].registers.rip, executing))
			err = check_moved_thread(&executing->threads.thread[i], executing->mem_fd, executing->why);
	if (err)
		return err;
	if (executing->allocator_nr &&
	    find_on_stacks(&executing->threads, &executing->maps, executing->mem_fd, &search, &tid))
		return reason_set(executing->why, -EBUSY, "thread %d was interrupted amid what would be replaced, again and again",
				  tid);
	return 0;
}

static int change_process(struct executing *executing, enum inject_change *ret_change)
{
	int err;

	target_maps_release(&executing->maps);
	err = target_maps_read(executing->pid, &executing->maps);
	if (err)
		return reason_set(executing->why, err, "process %d: %s", executing->pid, strerror(-err));
	err = check_before_change(executing);
	err = err ?: remote_caller_choose(&executing->threads, &executing->maps, &executing->gate,
					  executing->mem_fd, &executing->caller, executing->why);
	if (err)
		return err;
	*ret_change = INJECT_LEFT; /* until it is known */
	err = place_all(executing, ret_change);
	remote_caller_end(&executing->caller);
	return err;
}

/* Other programs' breakpoints that were found amid the allocators' functions. */
static void say_breakpoints(const struct executing *executing, struct outcome *outcome)
{
	for (uint32_t i = 0; i < executing->allocator_nr; i++)
		for (uint32_t k = 0; k < executing->plan->allocator[i].function_nr; k++)
			outcome->is_probed[i][k] = executing->plan->allocator[i].function[k].is_probed;
}

static void take_breakpoints(struct executing *executing, const struct outcome *outcome)
{
	for (uint32_t i = 0; i < executing->allocator_nr; i++)
		for (uint32_t k = 0; k < executing->plan->allocator[i].function_nr; k++)
			executing->plan->allocator[i].function[k].is_probed |= outcome->is_probed[i][k];
}

/* The program runs from call to call until there is something to inject. */
static int wait_for_python(struct executing *executing)
{
	const struct inject_wait *wait = executing->wait;
	int err = 0, planned;

	while (!err && (planned = wait->plan(wait->what, executing->python, executing->why)) == -EINPROGRESS)
		err = run_to_next_call(&executing->threads, wait->arena_bytes, executing->until_ns, executing->why);
	if (err == -EAGAIN && monotonic_now_ns() >= executing->until_ns)
		return reason_set(executing->why, err, "its Python has not begun in %u s",
				  (unsigned int)(INJECT_LIMIT_NS / SECOND_NS));
	err = err ?: planned ?: stop_new_threads(&executing->threads, executing->why);
	target_maps_release(&executing->maps);
	return err ?: target_maps_read(executing->pid, &executing->maps) ?: build_images(executing);
}

static int inject_stopped(struct executing *executing, struct outcome *outcome)
{
	int err = executing->wait ? wait_for_python(executing) : 0;

	outcome->times.thread_nr = executing->threads.thread_nr;
	pass_moment("all stopped");
	err = err ?: change_process(executing, &outcome->times.change);
	if (!err && executing->python)
		outcome->python = *executing->python;
	if (!err && executing->kind != INJECT_SAMPLER)
		err = hand_books_over(executing);
	pass_moment("all done, all stopped");
	return err;
}

/* Runs in the tracer. */
static int try_once(void *argument, void *ret_outcome)
{
	struct executing *executing = argument;
	struct outcome *outcome = ret_outcome;
	int err;

	executing->why = &outcome->why;
	outcome->why.text[0] = '\0';
	outcome->times.tries++;
	outcome->times.change = INJECT_UNCHANGED;
	err = await_threads(executing) ?: stop_threads(executing->pid, &executing->threads, executing->why);
	outcome->times.thread_nr = executing->threads.thread_nr;
	if (!err) {
		err = inject_stopped(executing, outcome);
		resume_threads(&executing->threads);
		pass_moment("all go on");
	}
	outcome->times.stopped_ns += executing->threads.stopped_ns;
	for (uint32_t i = 0; i < executing->placing_nr; i++)
		outcome->placed[i] = executing->placing[i].placed;
	say_breakpoints(executing, outcome);
	return err;
}

/* ---- afterwards ---- */

/* Runs in a tracer: before a thread has made its last call, it may still map something. */
static int check_settled(void *argument, void *outcome)
{
	struct executing *executing = argument;
	int err = stop_threads(executing->pid, &executing->threads, NULL);

	(void)outcome;
	if (err)
		return err;
	target_maps_release(&executing->maps);
	err = target_maps_read(executing->pid, &executing->maps) ?:
	      check_no_open_call(&executing->threads, &executing->maps, &executing->gate, NULL);
	resume_threads(&executing->threads);
	return err;
}

/* The tracer was ended, or a call did not return: threads take back what they can, and all else is ejected. */
static void take_back(struct executing *executing, struct inject_times *times)
{
	pid_t pid = executing->pid;
	int err;

	do {
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		err = run_as_tracer(check_settled, NULL, executing, NULL, 0) ?:
		      inject_eject(pid, executing->options->owner, executing->until_ns, NULL, NULL);
		if (err == -ENOENT || err == -ESRCH) {
			times->change = INJECT_TAKEN_BACK;
			return;
		}
	} while ((!err || err == -EAGAIN || err == -ETIMEDOUT) && monotonic_now_ns() < executing->until_ns);
}

/* The process goes on between two tries: each has a place of its own for the sampler. */
static int prepare_try(struct executing *executing)
{
	target_maps_release(&executing->maps);
	return target_maps_read(executing->pid, &executing->maps) ?: executing->wait ? 0 : build_images(executing);
}

static int make_try(struct executing *executing, struct outcome *outcome)
{
	struct message head;
	bool has_books = executing->kind != INJECT_SAMPLER;
	int err = has_books ? channel__pair(executing->end) : 0;

	if (err || !has_books)
		return err ?: run_as_tracer(try_once, NULL, executing, outcome, sizeof(*outcome));
	err = run_as_tracer(try_once, hand_threads_over, executing, outcome, sizeof(*outcome));
	err = err ?: channel__head(&(struct channel){ .fd = executing->end[0] }, &head, &executing->books_fd);
	close(executing->end[0]);
	if (executing->end[1] >= 0)
		close(executing->end[1]);
	return err;
}

static int make_tries(struct executing *executing, struct outcome *outcome)
{
	struct inject_times *times = &outcome->times;
	uint64_t begun_ns, stopped_ns, pause_ns;
	int err;

	for (;;) {
		err = prepare_try(executing);
		if (err)
			return err;
		begun_ns = monotonic_now_ns();
		stopped_ns = times->stopped_ns;
		err = make_try(executing, outcome);
		pause_ns = inject_pause_ns(PAUSE_NS, times->stopped_ns - stopped_ns);
		if (err != -EBUSY || times->tries == TRIES_MAX || monotonic_now_ns() + pause_ns > executing->until_ns)
			break;
		nanosleep(&(struct timespec){ pause_ns / SECOND_NS, pause_ns % SECOND_NS }, NULL);
	}
	if (err == -ETIMEDOUT)
		times->stopped_ns += tracer_has_ended(monotonic_now_ns() - begun_ns, &outcome->why);
	if (err && times->change == INJECT_LEFT)
		take_back(executing, times);
	return err == -EBUSY || err == -ETIMEDOUT ? -EAGAIN : err;
}

/* For hooks, there is no plan that knows it. */
static int find_gate(struct executing *executing)
{
	target_maps_release(&executing->maps);
	return target_maps_read(executing->pid, &executing->maps) ?:
	       find_call_gate(executing->pid, &executing->maps, NULL, &executing->gate, executing->why);
}

/* Opens the file and the process: what can be known before anything is stopped. */
static int open_execution(struct executing *executing)
{
	int err = injected_file_open(executing->kind, &executing->file) ?:
		  open_injected_process(executing);

	return err || !executing->python ? err : check_not_injected(executing->pid, executing->why) ?: find_gate(executing);
}

static int execute_once_opened(struct executing *executing, struct outcome *outcome)
{
	int err = open_execution(executing);

	if (err)
		return err;
	err = make_tries(executing, outcome);
	take_breakpoints(executing, outcome);
	if (*outcome->why.text)
		*executing->why = outcome->why;
	if (!err && executing->python)
		*executing->python = outcome->python;
	return err;
}

static void begin_placings(struct executing *executing)
{
	for (uint32_t i = 0; i < executing->placing_nr; i++)
		executing->placing[i] = (struct placing){
			.kind = executing->kind, .file = &executing->file, .code_fd = -1, .books_fd = -1,
			.has_books = !i && executing->kind != INJECT_SAMPLER, .path = executing->python ? "Python's allocators" : executing->plan->allocator[i].path,
		};
}

static void begin_executing(struct executing *executing, struct reason *why)
{
	executing->why = why;
	executing->why->text[0] = '\0';
	executing->mem_fd = -1;
	executing->until_ns = monotonic_now_ns() + INJECT_LIMIT_NS;
	begin_placings(executing);
}

static void end_executing(struct executing *executing, int err)
{
	if (err && !*executing->why->text)
		reason_set(executing->why, err, "process %d: %s", executing->pid, strerror(-err));
	for (uint32_t i = 0; i < executing->placing_nr; i++)
		injected_image_release(&executing->placing[i].image);
	target_maps_release(&executing->maps);
	if (executing->mem_fd >= 0)
		close(executing->mem_fd);
}

/* The caller has filled in what is to be done. placed: as many as there are placings. */
static int execute(struct executing *executing, struct placed *placed, struct inject_times *ret, struct reason *why)
{
	struct outcome *outcome = calloc(1, sizeof(*outcome));
	struct reason unsaid = {};
	int err;

	if (!outcome)
		return reason_set(why, -ENOMEM, "out of memory");
	begin_executing(executing, why ?: &unsaid);
	err = execute_once_opened(executing, outcome);
	if (ret)
		*ret = outcome->times;
	for (uint32_t i = 0; i < executing->placing_nr; i++)
		placed[i] = outcome->placed[i];
	end_executing(executing, err);
	free(outcome);
	return err;
}

int inject_execute(struct inject_plan *plan, const struct inject_options *options, struct inject_books *ret_books,
		   struct inject_times *ret, struct reason *why)
{
	struct executing executing = {
		.pid = plan->pid, .start_time = plan->start_time, .plan = plan, .options = options,
		.kind = options->is_exact ? INJECT_MALLOC_HOOKS : INJECT_SAMPLER,
		.gate = plan->details->gate, .placing_nr = plan->allocator_nr, .allocator_nr = plan->allocator_nr, .books_fd = -1,
	};
	struct placed placed[INJECT_ALLOCATORS_MAX] = {};
	int err = execute(&executing, placed, ret, why);

	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		plan->allocator[i].start = placed[i].start;
		plan->allocator[i].end = placed[i].end;
		plan->allocator[i].sampler_dev = placed[i].dev;
		plan->allocator[i].sampler_inode = placed[i].inode;
	}
	if (ret_books) {
		*ret_books = books_of(&placed[0]);
		ret_books->fd = executing.books_fd;
	} else if (executing.books_fd >= 0) {
		close(executing.books_fd);
	}
	return err;
}

/* Makes the checks of a try, without stopping a thread. */
int inject_python_check(pid_t pid, uint64_t start_time, struct inject_python *python, struct reason *why)
{
	const struct inject_options options = {};
	struct executing executing = {
		.pid = pid, .start_time = start_time, .python = python, .options = &options, .kind = INJECT_HOOKS, .placing_nr = 1,
		.books_fd = -1,
	};
	int err;

	begin_executing(&executing, why);
	err = open_execution(&executing) ?: prepare_try(&executing) ?: check_before_change(&executing);
	end_executing(&executing, err);
	return err;
}

int inject_python_execute(pid_t pid, uint64_t start_time, struct inject_python *python, const struct inject_wait *wait,
			  const struct inject_options *options, struct inject_books *ret_books,
			  struct inject_file *ret_file, struct inject_times *ret, struct reason *why)
{
	struct executing executing = {
		.pid = pid, .start_time = start_time, .python = python, .wait = wait, .options = options, .kind = INJECT_HOOKS,
		.placing_nr = 1, .books_fd = -1,
	};
	struct placed placed = {};
	int err = execute(&executing, &placed, ret, why);

	*ret_file = (struct inject_file){ placed.start, placed.dev, placed.inode };
	*ret_books = books_of(&placed);
	ret_books->fd = executing.books_fd;
	return err;
}
