// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recorded.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/bpf.h"
#include "collect/hazards.h"
#include "collect/launch.h"
#include "collect/load.h"
#include "collect/target.h"
#include "symbols/symbols.h"

uint64_t collector_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int processes_fd(const struct collector *collector)
{
	return bpf_map__fd(collector->bpf->maps.processes);
}

/* Each mapped file is kept open, so that it can be named when the process is gone. */
static void allow_many_files(struct rlimit *ret_before)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	*ret_before = limit;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

struct collector *collector__open(const struct collector_options *options, struct reason *why)
{
	struct collector *collector = calloc(1, sizeof(*collector));
	int err = collector ? 0 : -ENOMEM;

	if (!err) {
		allow_many_files(&collector->files_before);
		collector->traceback_limit = options->traceback_limit ?: TRACEBACK_LIMIT_DEFAULT;
		collector->symbols = symbols__new();
		collector->bpf = load_bpf(options, collector->traceback_limit, why);
		if (!collector->bpf || !collector->symbols)
			err = -errno;
	}
	if (!err)
		return collector;
	collector__close(collector);
	errno = -err;
	return NULL;
}

static void target_close(struct collector *collector, struct target *target)
{
	uint32_t tgid = target->pid;

	bpf_map_delete_elem(processes_fd(collector), &tgid);
	probes_close(&target->probes);
	target__free(target);
}

void collector__close(struct collector *collector)
{
	if (!collector)
		return;
	for (size_t i = 0; i < collector->target_nr; i++)
		target_close(collector, collector->target[i]);
	for (size_t i = 0; i < collector->note_nr; i++)
		free(collector->note[i]);
	free(collector->note);
	free(collector->target);
	free(collector->books);
	drain_release(&collector->drain);
	symbols__free(collector->symbols);
	allocsnap_bpf__destroy(collector->bpf);
	free(collector);
}

/* ---- what return probes could do ---- */

static void add_note(struct collector *collector, const struct reason *what)
{
	char *note = strdup(what->text);

	if (note && array_push(collector, note, note))
		free(note);
}

char *collector__next_note(struct collector *collector)
{
	char *note;

	if (!collector->note_nr)
		return NULL;
	note = collector->note[0];
	memmove(collector->note, collector->note + 1,
		--collector->note_nr * sizeof(*collector->note));
	return note;
}

/* 1 with a line, 0, or a negative errno. Of the objects, those that were not looked at yet. */
static int find_hazard(const struct collector *collector, const struct target *target,
		       struct reason *ret)
{
	const struct mappings *mappings = &target->mappings;
	int found;

	if (getenv("ALLOCSNAP_NO_UPROBE_RETURN")) {
		reason_set(ret, 0, "ALLOCSNAP_NO_UPROBE_RETURN is set");
		return 1;
	}
	found = hazard_of_threads(collector->bpf, target->pid, ret);
	for (size_t i = target->object_probed_nr; i < mappings->object_nr && !found; i++)
		found = hazard_of_object(&mappings->object[i], ret);
	return found;
}

static void note_switch(struct collector *collector, const struct target *target,
			const struct reason *hazard, const struct reason *dropped)
{
	struct reason note;

	reason_set(&note, 0,
		   "process %d (%s) is recorded without return probes, which is slower: %s; the kernel could end it at one, as it has no uprobe sessions%s%s",
		   target->pid, target->comm, hazard->text, *dropped->text ? "; " : "",
		   dropped->text);
	add_note(collector, &note);
}

/* Before any of a process's objects is probed, and again while it is recorded. */
static int avoid_hazards(struct collector *collector, struct target *target)
{
	struct reason hazard = {}, dropped = {};
	int found, err;

	if (probes_have_sessions(collector->bpf) || target->probes.by_ret)
		return 0;
	found = find_hazard(collector, target, &hazard);
	if (found <= 0)
		return found;
	err = probes_switch(&target->probes, collector->bpf, target->pid, &target->mappings,
			    &dropped);
	if (err)
		reason_set(&dropped, err, "its calls are recorded no longer: %s", strerror(-err));
	if (err != -ESRCH)
		note_switch(collector, target, &hazard, &dropped);
	return err;
}

/* Looks for allocators in the objects that have not been looked at yet. */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why)
{
	struct mappings *mappings = &target->mappings;
	int err = avoid_hazards(collector, target);

	if (err)
		reason_set(why, err, "cannot probe process %d: %s", target->pid, strerror(-err));
	for (; target->object_probed_nr < mappings->object_nr && !err; target->object_probed_nr++)
		err = probes_attach(&target->probes, collector->bpf, target->pid,
				    &mappings->object[target->object_probed_nr],
				    target->object_probed_nr, why);
	return err;
}

static int say_nothing_found(const struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->object_nr; i++)
		if (mappings->object[i].unreadable)
			return reason_set(why, -ENOENT,
					  "process %d (%s): found no allocator function; cannot read %s: %s",
					  target->pid, target->comm, mappings->object[i].path,
					  mappings->object[i].unreadable);
	if (target->probes.failed_nr && why && *why->text)
		return -ENOENT;
	return reason_set(why, -ENOENT,
			  "process %d (%s): no file that it maps defines malloc or another known allocator function; a static program without symbols cannot be traced",
			  target->pid, target->comm);
}

bool target_has_ended(const struct target *target)
{
	struct pollfd end = { .fd = target->pidfd, .events = POLLIN };

	return poll(&end, 1, 0) > 0;
}

static int write_books(struct collector *collector, const struct target *target,
		       const struct process *books, struct reason *why)
{
	uint32_t tgid = target->pid;
	int err = bpf_map_update_elem(processes_fd(collector), &tgid, books, BPF_ANY);

	return err ? reason_set(why, err, "cannot record process %d: %s", target->pid,
				err == -E2BIG ? "too many processes" : strerror(-err)) : 0;
}

/*
 * The books are there, closed, while probes are placed one after another, so that the probes
 * note the calls in flight; a block that only some of the probes could follow must not enter.
 */
static int start(struct collector *collector, struct target *target, struct reason *why)
{
	struct process books = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
	};
	int err = write_books(collector, target, &books, why);

	if (!err)
		err = probe_new_objects(collector, target, why);
	if (!err && !probes_see_allocations(&target->probes))
		err = say_nothing_found(target, why);
	if (err)
		return err;
	books.is_open = 1;
	books.by_ret = target->probes.by_ret;
	target->started_ns = collector_now_ns(CLOCK_MONOTONIC);
	err = write_books(collector, target, &books, why);
	if (!err && target_has_ended(target)) /* its end may have been written over */
		err = reason_set(why, -ESRCH, "process %d ended while it was being probed",
				 target->pid);
	return err;
}

static bool is_recorded(const struct collector *collector, pid_t pid)
{
	for (size_t i = 0; i < collector->target_nr; i++)
		if (collector->target[i]->pid == pid)
			return true;
	return false;
}

int collector__add(struct collector *collector, pid_t id, struct reason *why)
{
	struct target *target = target__open(id, why);
	int err;

	if (!target)
		return -errno;
	if (is_recorded(collector, target->pid)) {
		target__free(target);
		return 0;
	}
	err = array_reserve(&collector->books, &collector->books_alloc, collector->target_nr + 1);
	if (!err)
		err = start(collector, target, why);
	if (!err)
		err = array_push(collector, target, target);
	if (err)
		target_close(collector, target);
	return err;
}

/* A target that is held while it is being started. */
struct held {
	struct collector *collector;
	struct target *target;
	int err;
	struct reason *why;
};

static void probe_mapped(void *what)
{
	struct held *held = what;

	if (!held->err)
		held->err = target__refresh(held->target, held->why);
	if (!held->err)
		held->err = probe_new_objects(held->collector, held->target, held->why);
}

/* No call can be in flight: the books are open from the start. */
static int start_held(struct held *held)
{
	struct collector *collector = held->collector;
	struct target *target = held->target;
	struct process books = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
		.is_open = 1,
	};

	target->started_ns = collector_now_ns(CLOCK_MONOTONIC);
	held->err = write_books(collector, target, &books, held->why);
	probe_mapped(held);
	launch_release(target->pid, &target->mappings, probe_mapped, held);
	if (!held->err && !probes_see_allocations(&target->probes))
		held->err = say_nothing_found(target, held->why);
	return held->err;
}

int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid,
		   struct reason *why)
{
	struct held held = { .collector = collector, .why = why };
	int err = array_reserve(&collector->books, &collector->books_alloc, collector->target_nr + 1);
	pid_t pid;

	if (err) /* before there is somebody who would be held for ever */
		return err;
	pid = launch_start(argv, &collector->files_before, why);
	if (pid < 0)
		return pid;
	*ret_pid = pid;
	held.target = target__open(pid, why);
	if (!held.target) {
		err = -errno;
		launch_release(pid, &(struct mappings){}, NULL, NULL);
		return err;
	}
	err = start_held(&held);
	if (!err)
		err = array_push(collector, target, held.target);
	if (err)
		target_close(collector, held.target);
	return err;
}
