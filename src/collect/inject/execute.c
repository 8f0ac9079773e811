// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject_private.h"
#include "collect/inject/placing.h"
#include "collect/inject/remote_call.h"
#include "collect/inject/stack_words.h"
#include "collect/inject/stopped_threads.h"
#include "collect/process/proc.h"
#include "sampler/sampler_info.h"

#define TRIES_MAX 50
#define PAUSE_NS 2000000 /* between two tries */

struct executing {
	struct inject_plan *plan;
	const struct inject_options *options;
	struct inject_times times;
	struct reason *why;
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
	uint64_t interval = executing->options->interval ?: SAMPLER_INTERVAL_DEFAULT;
	pid_t owner = executing->options->owner ?: getpid();
	uint64_t owner_start = 0, start;
	int err = proc_start_time(owner, &owner_start);

	if (err || interval > SAMPLER_INTERVAL_MAX)
		return reason_set(executing->why, err ?: -EINVAL, err ? "process %d has ended" : "the interval is too large",
				  owner);
	for (uint32_t i = 0; i < executing->plan->allocator_nr && !err; i++) {
		struct placing *placing = &executing->placing[i];

		err = place_of_allocator(executing, i, &start);
		if (!err)
			err = sampler_image_build(&executing->file, placing->allocator,
						  &executing->plan->details->allocator[i], start, interval,
						  &placing->image, executing->why);
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
		if (set_thread_registers(thread))
			return reason_set(executing->why, -EAGAIN, "thread %d is ending", thread->tid);
		pass_moment("a thread moved");
	}
	remote_caller_renew(&executing->caller);
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
		set_thread_registers(thread);
	}
	remote_caller_renew(&executing->caller);
}

static int place_all(struct executing *executing)
{
	uint32_t nr = executing->plan->allocator_nr;
	bool has_own_code = true;
	int err = 0;

	for (uint32_t i = 0; i < nr && !err; i++)
		err = place_sampler(&executing->placing[i], &executing->file, &executing->caller, executing->plan->pid,
				    executing->why);
	for (uint32_t i = 0; i < nr && !err; i++)
		err = exchange_pages(&executing->placing[i], &executing->caller, executing->why);
	if (!err)
		err = move_threads(executing);
	for (uint32_t i = 0; i < nr && !err; i++)
		err = write_jumps(&executing->placing[i], &executing->caller, executing->why);
	for (uint32_t i = 0; i < nr && err; i++) /* if that fails, the process goes on with what it has */
		has_own_code &= unexchange_pages(&executing->placing[i], &executing->caller);
	if (err && has_own_code)
		move_threads_back(executing);
	for (uint32_t i = 0; i < nr; i++)
		end_placing(&executing->placing[i], &executing->caller, err && has_own_code);
	return err;
}

/* -EBUSY: a thread would have to go on a little. */
static int change_process(struct executing *executing)
{
	struct mappings_needed needed;
	pid_t tid;
	int err;

	target_maps_release(&executing->maps);
	err = target_maps_read(executing->plan->pid, &executing->maps);
	if (err)
		return reason_set(executing->why, err, "process %d: %s", executing->plan->pid, strerror(-err));
	needed = mappings_to_inject(executing->plan, &executing->file);
	err = check_plan_holds(executing) ?:
		      check_new_sharers(executing->plan->pid, &executing->newest, executing->why) ?:
		      check_room_for_mappings(executing->plan->pid, &executing->maps, &needed, executing->why);
	if (!err)
		err = remote_caller_choose(&executing->threads, &executing->maps, &executing->plan->details->gate,
					   executing->mem_fd, &executing->caller, executing->why);
	if (err)
		return err;
	if (find_on_stacks(&executing->threads, &executing->maps, executing->mem_fd, is_amid_jump, executing, &tid))
		return reason_set(executing->why, -EBUSY, "thread %d was interrupted amid what would be replaced, again and again",
				  tid);
	err = place_all(executing);
	remote_caller_end(&executing->caller);
	return err;
}

static int try_once(void *argument)
{
	struct executing *executing = argument;
	int err = stop_threads(executing->plan->pid, &executing->threads, executing->why);

	if (!err) {
		pass_moment("all stopped");
		err = change_process(executing);
		pass_moment("all done, all stopped");
		resume_threads(&executing->threads);
		pass_moment("all go on");
	}
	executing->times.stopped_ns += executing->threads.stopped_ns;
	executing->times.thread_nr = executing->threads.thread_nr;
	executing->times.tries++;
	return err;
}

static int execute_plan(struct executing *executing)
{
	int err = injected_file_open(&executing->file) ?: open_injected_process(executing);

	if (!err)
		err = target_maps_read(executing->plan->pid, &executing->maps);
	if (!err)
		err = build_images(executing);
	if (err)
		return err;
	do {
		if (executing->times.tries)
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
		err = run_as_tracer(try_once, executing);
	} while (err == -EBUSY && executing->times.tries < TRIES_MAX);
	return err == -EBUSY ? -EAGAIN : err;
}

int inject_execute(struct inject_plan *plan, const struct inject_options *options, struct inject_times *ret,
		   struct reason *why)
{
	struct reason unsaid = {};
	struct executing *executing = calloc(1, sizeof(*executing));
	int err;

	if (!executing)
		return reason_set(why, -ENOMEM, "out of memory");
	executing->plan = plan;
	executing->options = options;
	executing->why = why ?: &unsaid;
	executing->why->text[0] = '\0';
	executing->mem_fd = -1;
	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		executing->placing[i].allocator = &plan->allocator[i];
		executing->placing[i].remote_fd = -1;
	}
	err = execute_plan(executing);
	if (err && !*executing->why->text)
		reason_set(executing->why, err, "process %d: %s", plan->pid, strerror(-err));
	if (ret)
		*ret = executing->times;
	for (uint32_t i = 0; i < plan->allocator_nr; i++)
		sampler_image_release(&executing->placing[i].image);
	target_maps_release(&executing->maps);
	if (executing->mem_fd >= 0)
		close(executing->mem_fd);
	free(executing);
	return err;
}
