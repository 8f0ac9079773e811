// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "exact/books.h"
#include "inject/found_samplers.h"
#include "inject/inject_private.h"
#include "inject/placing.h"
#include "inject/remote_call.h"
#include "inject/stopped_threads.h"

#define TRIES_MAX 20
#define PAUSE_NS 1000000
#define DATA_MAX (32u << 20) /* of a program, with its tables */
#define FILES_MOST (2 * INJECT_ALLOCATORS_MAX) /* that were left open */

struct ejecting {
	pid_t pid, owner;
	uint64_t until_ns;
	struct eject_result result;
	uint32_t leaving_nr; /* of those that are kept: threads in them may soon leave */
	struct reason *why;
	struct call_gate gate;
	struct target_maps maps;
	struct found_samplers found;
	struct newest_process newest;
	struct stopped_threads threads;
	struct remote_caller caller;
	int mem_fd;
};

/* ---- the allocators' pages ---- */

/* Whether the allocator's own page is where the injector has moved it. Tables of other versions do not say its file. */
static bool is_parked(const struct ejecting *ejecting, const struct injected_table *table, uint32_t page)
{
	uint64_t parked = table->page[page].parked;
	const struct maps_line *line = target_maps_find(&ejecting->maps, parked);

	return line && line->inode && line->perms[2] == 'x' &&
	       (table->version != INJECTED_VERSION || (line->dev == table->dev && line->inode == table->inode &&
						       parked - line->start + line->offset == table->offset[page]));
}

static int give_pages_back(struct ejecting *ejecting, const struct found_sampler *sampler)
{
	int err = 0;

	for (uint32_t i = 0; i < sampler->table.page_nr; i++)
		if (found_sampler_has_page(sampler, &ejecting->maps, i) && !is_parked(ejecting, &sampler->table, i))
			return reason_set(ejecting->why, -ENOTSUP, "the process has unmapped a page of its allocator");
	for (uint32_t i = 0; i < sampler->table.page_nr && !err; i++)
		if (found_sampler_has_page(sampler, &ejecting->maps, i))
			err = give_page_back(&ejecting->caller, sampler->table.page[i].address,
					     sampler->table.page[i].parked);
	if (err)
		return reason_set(ejecting->why, -EIO, "the allocator's page cannot be mapped back: %s", strerror(-err));
	ejecting->result.function_nr += sampler->is_active ? sampler->table.function_nr : 0;
	return 0;
}

static bool is_in_sampler(uint64_t address, const void *context)
{
	const struct injected_table *table = context;

	return address - table->start < table->text_end - table->start;
}

/* ---- the pointers to hooks ---- */

static bool is_pointer_to_hook(uint64_t address, const void *context)
{
	const struct injected_table *table = context;

	return is_in_sampler(address, table) && array_any(table->word_nr, i, table->word[i].put == address);
}

/* Where the program has put something else meanwhile, it stays. */
static int give_words_back(struct ejecting *ejecting, const struct found_sampler *sampler)
{
	const struct injected_table *table = &sampler->table;

	for (uint32_t i = table->word_nr; i--;) {
		int err;

		if (found_sampler_word(ejecting->pid, sampler, i) != table->word[i].put)
			continue;
		err = put_word(ejecting->caller.thread->tid, table->word[i].address, table->word[i].was);
		pass_moment("a word written back");
		if (err)
			return reason_set(ejecting->why, -EIO, "a pointer to a hook cannot be written: %s", strerror(-err));
		ejecting->result.function_nr++;
	}
	return 0;
}

static bool is_data_beside(const struct maps_line *line, const struct maps_line *next)
{
	return line->end == next->start && !strcmp(line->perms, "rw-p") && !strcmp(next->perms, "rw-p") && !*next->path;
}

static bool is_same_data(const struct target_maps *maps, const struct injected_table *table, uint32_t word)
{
	return word && target_maps_find(maps, table->word[word].address) == target_maps_find(maps, table->word[word - 1].address);
}

/* Whether the program's data around a table has a pointer to a hook: what it may put back, or call. */
static bool has_copy_around(const struct ejecting *ejecting, const struct injected_table *table, uint64_t address)
{
	const struct stack_search search = { is_pointer_to_hook, table };
	const struct target_maps *maps = &ejecting->maps;
	const struct maps_line *line = target_maps_find(maps, address), *last = line;

	while (line && line > maps->line && is_data_beside(&line[-1], line))
		line--;
	while (last && last + 1 < maps->line + maps->line_nr && is_data_beside(last, last + 1))
		last++;
	return line && find_in_memory(ejecting->mem_fd, line->start,
				      last->end - line->start < DATA_MAX ? last->end : line->start + DATA_MAX, &search);
}

/*
 * A function that the program has put in front of a hook, or is about to put there, has kept the pointer to it. CPython
 * keeps it in its own data (tracemalloc, debug hooks).
 */
static bool has_copies(const struct ejecting *ejecting, const struct found_sampler *sampler)
{
	const struct injected_table *table = &sampler->table;

	if (array_any(table->word_nr, i, found_sampler_word(ejecting->pid, sampler, i) != table->word[i].was))
		return true;
	for (uint32_t i = 0; i < table->word_nr; i++)
		if (!is_same_data(&ejecting->maps, table, i) && has_copy_around(ejecting, table, table->word[i].address))
			return true;
	return false;
}

static const struct maps_line *find_books(const struct ejecting *ejecting, const struct injected_table *table)
{
	const struct maps_line *line = table->books_start ? target_maps_find(&ejecting->maps, table->books_start) : NULL;

	return line && is_books(line) && line->start == table->books_start ? line : NULL;
}

/* By the books' file: of what no thread has written it has no pages, and needs none. */
static bool is_any_word_set(int fd, const struct injected_table *table)
{
	uint64_t i = 0, word;

	while (i < table->inside_nr) {
		uint64_t at = table->inside_at + i * table->inside_step;
		off_t data = lseek(fd, at, SEEK_DATA);

		if (data < 0)
			return errno != ENXIO;
		if ((uint64_t)data > at) {
			i = (data - table->inside_at + table->inside_step - 1) / table->inside_step;
			continue;
		}
		if (pread(fd, &word, sizeof(word), at) != sizeof(word) || word)
			return true;
		i++;
	}
	return false;
}

static bool are_own_books(const struct ejecting *ejecting, const struct injected_table *table)
{
	uint64_t on;

	return pread(ejecting->mem_fd, &on, sizeof(on), table->on) != sizeof(on) || on;
}

static bool has_threads_in_hooks(const struct ejecting *ejecting, const struct injected_table *table)
{
	const struct maps_line *books = find_books(ejecting, table);
	bool has;
	int fd;

	if (!books || !are_own_books(ejecting, table))
		return false;
	if (open_mapping(ejecting->pid, books, &fd))
		return true;
	has = fcntl(fd, F_GET_SEALS) < 0 || is_any_word_set(fd, table);
	close(fd);
	return has;
}

/* From here on the hooks that stay only pass on. */
static void switch_off(const struct ejecting *ejecting, const struct injected_table *table)
{
	const uint64_t off = BOOKS_OFF;

	if (find_books(ejecting, table) && are_own_books(ejecting, table) &&
	    pwrite(ejecting->mem_fd, &off, sizeof(off), table->books_start + table->off_at) != sizeof(off))
		return; /* the process has made them read-only: no hook can write them either */
}

/* ---- threads in the sampler ---- */

/*
 * Where a thread goes on instead, which is amid a hook or a trampoline. False: nowhere. A hook has changed only r10,
 * which it has saved, and rax of a function that returns a value.
 */
static bool find_way_out(const struct ejecting *ejecting, const struct injected_table *table,
			 struct user_regs_struct *registers)
{
	for (uint64_t i = 0; i < table->function_nr; i++) {
		uint64_t into = registers->rip - table->function[i].hook;

		if (into >= INJECTED_HOOK_BYTES)
			continue;
		if (into && pread(ejecting->mem_fd, &registers->r10, sizeof(registers->r10),
				  registers->rsp - INJECTED_SAVED_R10) != sizeof(registers->r10))
			return false;
		registers->rip = table->function[i].entry;
		return true;
	}
	for (uint64_t i = 0; i < table->moved_nr; i++)
		if (table->moved[i].to == registers->rip) {
			registers->rip = table->moved[i].from;
			return true;
		}
	return false;
}

/* Threads that are in it, and not in a call of the allocator, leave it. */
static void move_threads_out(struct ejecting *ejecting, const struct injected_table *table)
{
	for (size_t i = 0; i < ejecting->threads.thread_nr; i++) {
		struct stopped_thread *thread = &ejecting->threads.thread[i];

		if (!is_in_sampler(thread->registers.rip, table) || !find_way_out(ejecting, table, &thread->registers))
			continue;
		remote_caller_set_registers(&ejecting->caller, thread);
		pass_moment("a thread moved out");
	}
}

/* A call of the allocator that returns to the sampler, on whatever stack. The sampler calls nothing else. */
static bool has_open_calls(const struct ejecting *ejecting, const struct injected_table *table)
{
	uint64_t word[512];

	for (uint64_t at = 0; at < table->slot_nr * INJECTED_SLOT_BYTES; at += sizeof(word)) {
		ssize_t bytes = pread(ejecting->mem_fd, word, sizeof(word), table->slots + at);

		for (ssize_t i = 3; i < bytes / 8; i += INJECTED_SLOT_BYTES / 8)
			if (word[i] && at + 8 * i < table->slot_nr * INJECTED_SLOT_BYTES)
				return true;
	}
	return false;
}

/*
 * A thread may have read a pointer to a hook, and be about to call it, or to keep it elsewhere. A hook that calls a function
 * has said so in the books, or leaves no return address (python_hooks.c).
 */
static bool is_any_thread_in(const struct ejecting *ejecting, const struct injected_table *table)
{
	const struct stack_search search = {
		is_in_sampler, table, .in_frames = table->version == INJECTED_VERSION || table->word_nr,
		.is_pointer = is_pointer_to_hook,
	}, pointers = { is_pointer_to_hook, table };
	pid_t tid;

	for (size_t i = 0; i < ejecting->threads.thread_nr; i++)
		if (is_in_sampler(ejecting->threads.thread[i].registers.rip, table) ||
		    (table->word_nr && find_in_registers(&ejecting->threads.thread[i], &pointers)))
			return true;
	return find_on_stacks(&ejecting->threads, &ejecting->maps, ejecting->mem_fd, &search, &tid);
}

/* The process may have mapped something of its own there meanwhile, if it unmapped the sampler. */
static bool is_still_mapped(const struct ejecting *ejecting, const struct found_sampler *sampler)
{
	const struct maps_line *line = target_maps_find(&ejecting->maps, sampler->table.start);

	return line && line->inode == sampler->inode && line->dev == sampler->dev && !line->offset;
}

/* ---- the whole ---- */

/* Hooks of several allocators have the same books. */
static int unmap_ejected(struct ejecting *ejecting, const struct injected_table *table)
{
	bool has_books = has_books_apart(table) && find_books(ejecting, table);
	long result = has_books ? REMOTE_CALL(&ejecting->caller, SYS_munmap, table->books_start,
					      table->books_end - table->books_start) : 0;

	result = result ?: REMOTE_CALL(&ejecting->caller, SYS_munmap, table->start, table->end - table->start);
	return result ? reason_set(ejecting->why, -EIO, "what was injected cannot be unmapped: %s", strerror(-result)) : 0;
}

static bool belongs_to(const struct ejecting *ejecting, const struct found_sampler *sampler, uint64_t slots)
{
	return sampler->table.slots == slots && is_still_mapped(ejecting, sampler);
}

/* Unmaps the samplers that have the same slots, or none of them. */
static int unmap_together(struct ejecting *ejecting, const struct found_sampler *first)
{
	const struct found_samplers *found = &ejecting->found;
	const struct injected_table *table = &first->table;
	bool is_in_use = has_open_calls(ejecting, table) || has_threads_in_hooks(ejecting, table), has_copy = has_copies(ejecting, first);
	int err = 0;

	for (size_t i = 0; i < found->sampler_nr && !is_in_use; i++)
		is_in_use = belongs_to(ejecting, &found->sampler[i], table->slots) &&
			    is_any_thread_in(ejecting, &found->sampler[i].table);
	for (size_t i = 0; i < found->sampler_nr && !err; i++) {
		if (!belongs_to(ejecting, &found->sampler[i], table->slots))
			continue;
		ejecting->result.kept_nr += is_in_use || has_copy;
		ejecting->leaving_nr += is_in_use && !has_copy;
		if (is_in_use || has_copy)
			switch_off(ejecting, &found->sampler[i].table);
		else
			err = unmap_ejected(ejecting, &found->sampler[i].table);
	}
	return err;
}

static bool is_first_with_its_slots(const struct found_samplers *found, size_t at)
{
	return !array_any(at, i, found->sampler[i].table.slots == found->sampler[at].table.slots);
}

/* First no allocator calls a sampler any more: they work together. */
static int eject_samplers(struct ejecting *ejecting)
{
	const struct found_samplers *found = &ejecting->found;
	int err = 0;

	for (size_t i = 0; i < found->sampler_nr && !err; i++)
		err = give_pages_back(ejecting, &found->sampler[i]) ?: give_words_back(ejecting, &found->sampler[i]);
	for (size_t i = 0; i < found->sampler_nr && !err; i++)
		move_threads_out(ejecting, &found->sampler[i].table);
	for (size_t i = 0; i < found->sampler_nr && !err; i++)
		if (is_first_with_its_slots(found, i))
			err = unmap_together(ejecting, &found->sampler[i]);
	return err;
}

/* The injector was killed in the call that made one, before its descriptor was known. */
static int close_left_files(struct ejecting *ejecting)
{
	for (int fd, nr = 0; (fd = left_file(ejecting->pid)) >= 0; nr++)
		if (nr == FILES_MOST || REMOTE_CALL(&ejecting->caller, SYS_close, fd))
			return reason_set(ejecting->why, -EAGAIN, "descriptor %d, an injected file, cannot be closed", fd);
	return 0;
}

static int read_process(struct ejecting *ejecting)
{
	int err;

	target_maps_release(&ejecting->maps);
	found_samplers_release(&ejecting->found);
	err = target_maps_read(ejecting->pid, &ejecting->maps);
	if (err)
		return reason_set(ejecting->why, err, "process %d: %s", ejecting->pid, strerror(-err));
	return found_samplers_read(ejecting->pid, &ejecting->maps, &ejecting->found, ejecting->why);
}

static int change_back(struct ejecting *ejecting)
{
	const struct mappings_needed needed = mappings_to_eject();
	int err = read_process(ejecting) ?: check_new_sharers(ejecting->pid, &ejecting->newest, ejecting->why) ?:
			  check_room_for_mappings(ejecting->pid, &ejecting->maps, &needed, ejecting->why);

	err = err ?: remote_caller_choose(&ejecting->threads, &ejecting->maps, &ejecting->gate, ejecting->mem_fd,
					  &ejecting->caller, ejecting->why);
	if (err)
		return err;
	ejecting->result.kept_nr = ejecting->leaving_nr = 0;
	err = eject_samplers(ejecting) ?: close_left_files(ejecting);
	remote_caller_end(&ejecting->caller);
	return check_caller_ran(&ejecting->caller, ejecting->why) ?: err;
}

/* The result of one try, which a child makes. */
struct outcome {
	struct eject_result result;
	uint32_t leaving_nr;
	struct reason why;
};

/* Runs in the tracer. */
static int eject_once(void *argument, void *ret_outcome)
{
	struct ejecting *ejecting = argument;
	struct outcome *outcome = ret_outcome;
	struct inject_times *times = &ejecting->result.times;
	int err;

	ejecting->why = &outcome->why;
	err = stop_threads(ejecting->pid, &ejecting->threads, ejecting->why);
	if (!err) {
		pass_moment("all stopped");
		err = change_back(ejecting);
		pass_moment("all done, all stopped");
		resume_threads(&ejecting->threads);
		pass_moment("all go on");
	}
	times->stopped_ns += ejecting->threads.stopped_ns;
	times->thread_nr = ejecting->threads.thread_nr;
	times->tries++;
	outcome->result = ejecting->result;
	outcome->leaving_nr = ejecting->leaving_nr;
	return err;
}

static int try_to_eject(struct ejecting *ejecting)
{
	struct outcome outcome = { .result = ejecting->result };
	uint64_t begun_ns = monotonic_now_ns();
	int err;

	ejecting->newest = newest_process();
	err = check_shared_memory(ejecting->pid, ejecting->why);
	if (err)
		return err;
	err = run_as_tracer(eject_once, NULL, ejecting, &outcome, sizeof(outcome));
	ejecting->result = outcome.result;
	ejecting->leaving_nr = outcome.leaving_nr;
	*ejecting->why = outcome.why;
	if (err != -ETIMEDOUT)
		return err == -EBUSY ? -EAGAIN : err;
	ejecting->result.times.stopped_ns += tracer_has_ended(monotonic_now_ns() - begun_ns, ejecting->why);
	return -EAGAIN;
}

static int check_owner(struct ejecting *ejecting)
{
	pid_t owner = ejecting->owner ?: getpid();
	struct inject_found found;
	int err = inject_find(ejecting->pid, &found, ejecting->why);

	if (err || !found.is_active || !found.owner_is_running || found.owner == owner)
		return err;
	return reason_set(ejecting->why, -EAGAIN, "process %d, which is running, has injected it", found.owner);
}

static int open_ejected_process(struct ejecting *ejecting)
{
	char path[64];
	int err = check_target_process(ejecting->pid, ejecting->why) ?: check_owner(ejecting);

	if (err == -ENOENT && left_file(ejecting->pid) >= 0)
		err = 0;
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/mem", ejecting->pid);
	ejecting->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (ejecting->mem_fd < 0)
		return reason_set(ejecting->why, errno == EACCES ? -EPERM : -errno, "%s: %s", path, strerror(errno));
	err = read_process(ejecting);
	return err ?: find_call_gate(ejecting->pid, &ejecting->maps, &ejecting->found, &ejecting->gate, ejecting->why);
}

static int eject_all(struct ejecting *ejecting)
{
	const struct inject_times *times = &ejecting->result.times;
	int err = open_ejected_process(ejecting);

	for (int i = 1; !err; i++) {
		uint64_t stopped_ns = times->stopped_ns, pause_ns;

		err = try_to_eject(ejecting);
		pause_ns = inject_pause_ns(PAUSE_NS * i, times->stopped_ns - stopped_ns);
		if ((err ? err != -EAGAIN : !ejecting->leaving_nr) || i == TRIES_MAX ||
		    monotonic_now_ns() + pause_ns > ejecting->until_ns)
			break;
		nanosleep(&(struct timespec){ pause_ns / SECOND_NS, pause_ns % SECOND_NS }, NULL);
		err = 0;
	}
	return err;
}

int inject_eject(pid_t pid, pid_t owner, uint64_t until_ns, struct eject_result *ret, struct reason *why)
{
	struct reason unsaid = {};
	struct ejecting ejecting = {
		.pid = pid, .owner = owner, .until_ns = until_ns ?: monotonic_now_ns() + INJECT_LIMIT_NS, .mem_fd = -1,
		.why = why ?: &unsaid,
	};
	int err;

	ejecting.why->text[0] = '\0';
	err = eject_all(&ejecting);
	if (err && !*ejecting.why->text)
		reason_set(ejecting.why, err, "process %d: %s", pid, strerror(-err));
	if (ret)
		*ret = ejecting.result;
	target_maps_release(&ejecting.maps);
	found_samplers_release(&ejecting.found);
	if (ejecting.mem_fd >= 0)
		close(ejecting.mem_fd);
	return err;
}
