// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/reason.h"
#include "inject/inject_private.h"
#include "inject/placing.h"
#include "inject/remote_call.h"
#include "inject/stopped_threads.h"
#include "process/proc.h"
#include "sampler/sampler_info.h"

#define TRIES_MAX 50
#define PAUSE_NS 2000000 /* between two tries */

/* The result of one try, which a child makes. */
struct outcome {
	struct inject_times times;
	struct reason why;
	struct inject_allocator allocator[INJECT_ALLOCATORS_MAX];
};

struct executing {
	struct inject_plan *plan;
	const struct inject_options *options;
	struct reason *why;
	uint64_t until_ns;
	struct injected_file file;
	struct placing placing[INJECT_ALLOCATORS_MAX];
	struct target_maps maps;
	struct newest_process newest;
	struct stopped_threads threads;
	struct remote_caller caller;
	int mem_fd;
};

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
	*ret = target_maps_gap(&executing->maps, executing->plan->pid, planned->low, planned->high, bytes);
	if (!*ret)
		return reason_set(executing->why, -ENOTSUP, "no room for the sampler near %s", allocator->path);
	return target_maps_reserve(&executing->maps, *ret, bytes);
}

static int build_images(struct executing *executing)
{
	struct sampler_image_options image = { .interval = executing->options->interval ?: SAMPLER_INTERVAL_DEFAULT };
	pid_t owner = executing->options->owner ?: getpid();
	uint64_t owner_start = 0;
	int err = proc_start_time(owner, &owner_start);

	if (err || image.interval > SAMPLER_INTERVAL_MAX)
		return reason_set(executing->why, err ?: -EINVAL, err ? "process %d has ended" : "the interval is too large",
				  owner);
	for (uint32_t i = 0; i < executing->plan->allocator_nr; i++)
		image.has_unseen_new |= executing->plan->allocator[i].has_unseen_new;
	for (uint32_t i = 0; i < executing->plan->allocator_nr && !err; i++) {
		struct placing *placing = &executing->placing[i];

		sampler_image_release(&placing->image);
		err = place_of_allocator(executing, i, &image.start);
		image.first_start = i ? image.first_start : image.start;
		err = err ?: sampler_image_build(&executing->file, placing->allocator,
						 &executing->plan->details->allocator[i], &image, &placing->image,
						 executing->why);
		if (err)
			break;
		placing->image.table->owner = owner;
		placing->image.table->owner_start_time = owner_start;
	}
	return err;
}

static int open_injected_process(struct executing *executing)
{
	char path[64];
	uint64_t start_time = 0;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/mem", executing->plan->pid);
	executing->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (executing->mem_fd < 0)
		return reason_set(executing->why, errno == EACCES ? -EPERM : errno == ENOENT ? -ESRCH : -errno, "%s: %s", path,
				  strerror(errno));
	err = proc_start_time(executing->plan->pid, &start_time);
	if (err || start_time != executing->plan->start_time)
		return reason_set(executing->why, -ESRCH, "process %d has ended", executing->plan->pid);
	executing->newest = newest_process();
	return check_target_process(executing->plan->pid, executing->why) ?:
		       check_shared_memory(executing->plan->pid, executing->why);
}

/* ---- while they are stopped ---- */

/* The plan must still hold: no other mappings, no other code. */
static int check_plan_holds(struct executing *executing)
{
	const struct inject_plan *plan = executing->plan;
	int err = 0;

	for (uint32_t i = 0; i < plan->allocator_nr && !err; i++) {
		struct inject_allocator *allocator = &executing->plan->allocator[i];
		const struct injected_table *table = executing->placing[i].image.table;

		if (!target_maps_are_free(&executing->maps, table->start, table->end))
			return reason_set(executing->why, -EBUSY, "the room near %s is taken again and again", allocator->path);
		for (uint32_t k = 0; k < allocator->page_nr; k++) {
			const struct maps_line *line = target_maps_find(&executing->maps, allocator->page[k].address);

			if (!line || line->inode != allocator->inode || line->dev != allocator->dev ||
			    strcmp(line->perms, "r-xp") ||
			    allocator->page[k].address - line->start + line->offset != allocator->page[k].offset)
				return reason_set(executing->why, -EAGAIN, "%s has just been mapped anew", allocator->path);
		}
		err = check_code_pages(executing->mem_fd, plan->details->allocator[i].original, allocator, executing->why);
	}
	return err;
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

	for (uint32_t i = 0; i < executing->plan->allocator_nr; i++) {
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
		for (uint32_t k = 0; k < executing->plan->allocator_nr && !to; k++) {
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
		for (uint32_t k = 0; k < executing->plan->allocator_nr && thread->has_moved; k++) {
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

static int place_all(struct executing *executing, enum inject_change *ret_change)
{
	uint32_t nr = executing->plan->allocator_nr;
	struct remote_caller *caller = &executing->caller;
	bool has_own_code = true;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++)
		err = place_sampler(&executing->placing[i], &executing->file, caller, executing->plan->pid,
				    executing->why);
	if (!err && keep_mapped(executing->placing, nr, caller))
		err = reason_set(executing->why, -EIO, "its stack cannot be written");
	for (uint32_t i = 0; i < nr && !err; i++)
		err = exchange_pages(&executing->placing[i], caller, executing->why);
	err = err ?: move_threads(executing);
	for (uint32_t i = 0; i < nr && !err; i++)
		err = write_jumps(&executing->placing[i], caller, executing->why);
	for (uint32_t i = 0; i < nr && err; i++) /* if that fails, the process goes on with what it has */
		has_own_code &= unexchange_pages(&executing->placing[i], caller);
	if (err && has_own_code)
		move_threads_back(executing);
	has_own_code &= end_placing(executing->placing, nr, caller, err && has_own_code);
	*ret_change = !err || !has_own_code ? INJECT_LEFT : caller->call_nr ? INJECT_TAKEN_BACK : INJECT_UNCHANGED;
	return check_caller_ran(caller, executing->why) ?: err;
}

/* All that must hold, before anything is changed. -EBUSY: a thread would have to go on a little. */
static int check_before_change(struct executing *executing)
{
	const struct stack_search search = { is_amid_jump, executing };
	struct mappings_needed needed;
	pid_t tid;
	int err = check_plan_holds(executing) ?: check_new_sharers(executing->plan->pid, &executing->newest, executing->why) ?:
		  check_thread_pointers(&executing->threads, executing->mem_fd, executing->why);

	needed = mappings_to_inject(executing->plan, &executing->file);
	err = err ?: check_room_for_mappings(executing->plan->pid, &executing->maps, &needed, executing->why);
	for (size_t i = 0; i < executing->threads.thread_nr && !err; i++)
		if (is_amid_jump(executing->threads.thread[i].registers.rip, executing))
			err = check_moved_thread(&executing->threads.thread[i], executing->mem_fd, executing->why);
	if (err)
		return err;
	if (find_on_stacks(&executing->threads, &executing->maps, executing->mem_fd, &search, &tid))
		return reason_set(executing->why, -EBUSY, "thread %d was interrupted amid what would be replaced, again and again",
				  tid);
	return 0;
}

static int change_process(struct executing *executing, enum inject_change *ret_change)
{
	int err;

	target_maps_release(&executing->maps);
	err = target_maps_read(executing->plan->pid, &executing->maps);
	if (err)
		return reason_set(executing->why, err, "process %d: %s", executing->plan->pid, strerror(-err));
	err = check_before_change(executing);
	err = err ?: remote_caller_choose(&executing->threads, &executing->maps, &executing->plan->details->gate,
					  executing->mem_fd, &executing->caller, executing->why);
	if (err)
		return err;
	*ret_change = INJECT_LEFT; /* until it is known */
	err = place_all(executing, ret_change);
	remote_caller_end(&executing->caller);
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
	err = stop_threads(executing->plan->pid, &executing->threads, executing->why);
	outcome->times.thread_nr = executing->threads.thread_nr;
	if (!err) {
		pass_moment("all stopped");
		err = change_process(executing, &outcome->times.change);
		pass_moment("all done, all stopped");
		resume_threads(&executing->threads);
		pass_moment("all go on");
	}
	outcome->times.stopped_ns += executing->threads.stopped_ns;
	memcpy(outcome->allocator, executing->plan->allocator, sizeof(outcome->allocator));
	return err;
}

/* ---- afterwards ---- */

/* Runs in a tracer: before a thread has made its last call, it may still map something. */
static int check_settled(void *argument, void *outcome)
{
	struct executing *executing = argument;
	int err = stop_threads(executing->plan->pid, &executing->threads, NULL);

	(void)outcome;
	if (err)
		return err;
	target_maps_release(&executing->maps);
	err = target_maps_read(executing->plan->pid, &executing->maps) ?:
	      check_no_open_call(&executing->threads, &executing->maps, &executing->plan->details->gate, NULL);
	resume_threads(&executing->threads);
	return err;
}

/* The tracer was ended, or a call did not return: threads take back what they can, and all else is ejected. */
static void take_back(struct executing *executing, struct inject_times *times)
{
	pid_t pid = executing->plan->pid;
	int err;

	do {
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		err = run_as_tracer(check_settled, executing, NULL, 0) ?:
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
	return target_maps_read(executing->plan->pid, &executing->maps) ?: build_images(executing);
}

static int make_tries(struct executing *executing, struct outcome *outcome)
{
	struct inject_times *times = &outcome->times;
	uint64_t begun_ns, pause_ns;
	int err;

	for (;;) {
		err = prepare_try(executing);
		if (err)
			return err;
		begun_ns = monotonic_now_ns();
		err = run_as_tracer(try_once, executing, outcome, sizeof(*outcome));
		pause_ns = inject_pause_ns(PAUSE_NS, monotonic_now_ns() - begun_ns);
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

static int execute_plan(struct executing *executing, struct outcome *outcome)
{
	int err = injected_file_open(&executing->file) ?: open_injected_process(executing);

	if (err)
		return err;
	err = make_tries(executing, outcome);
	memcpy(executing->plan->allocator, outcome->allocator, sizeof(outcome->allocator));
	if (*outcome->why.text)
		*executing->why = outcome->why;
	return err;
}

int inject_execute(struct inject_plan *plan, const struct inject_options *options, struct inject_times *ret,
		   struct reason *why)
{
	struct reason unsaid = {};
	struct executing *executing = calloc(1, sizeof(*executing));
	struct outcome *outcome = calloc(1, sizeof(*outcome));
	int err;

	if (!executing || !outcome) {
		free(executing);
		free(outcome);
		return reason_set(why, -ENOMEM, "out of memory");
	}
	memcpy(outcome->allocator, plan->allocator, sizeof(outcome->allocator));
	executing->plan = plan;
	executing->options = options;
	executing->why = why ?: &unsaid;
	executing->why->text[0] = '\0';
	executing->mem_fd = -1;
	executing->until_ns = monotonic_now_ns() + INJECT_LIMIT_NS;
	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		executing->placing[i].allocator = &plan->allocator[i];
		executing->placing[i].remote_fd = -1;
	}
	err = execute_plan(executing, outcome);
	if (err && !*executing->why->text)
		reason_set(executing->why, err, "process %d: %s", plan->pid, strerror(-err));
	if (ret)
		*ret = outcome->times;
	for (uint32_t i = 0; i < plan->allocator_nr; i++)
		sampler_image_release(&executing->placing[i].image);
	target_maps_release(&executing->maps);
	if (executing->mem_fd >= 0)
		close(executing->mem_fd);
	free(executing);
	free(outcome);
	return err;
}
