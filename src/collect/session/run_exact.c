// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Starts a program that records its own blocks. It is held until its loader is done: by then its files say what it is.
 *
 *	CPython			the injector lets it run until its Python has begun, and puts the hooks in (inject_wait)
 *	any other		its heap, by the library that it has loaded
 *
 * If only Python's objects are wanted, another program
 *
 *	may become a third	it runs on, and the program that it becomes (exec) is held in its turn
 *	or not			it is refused, before its first instruction of its own
 */
#include "collect/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect/probe/attach_methods.h"
#include "collect/sources/block_sources.h"
#include "collect/sources/python_hooks_plan.h"
#include "exact/exact_preload.h"
#include "inject/inject.h"
#include "process/launch.h"

#define WAITING_SAID_NS SECOND_NS /* a program that becomes another one has done so by then, as a rule */

struct exact_launch {
	struct collector *collector;
	pid_t pid;
	struct target *target; /* of the program that it is now */
	struct found_python place;
	struct inject_times times;
	bool is_held, is_waiting_said;
	uint64_t let_go_ns;
	int err; /* of reading its mappings, or of letting it go */
	struct reason *why;
};

static const char *name_of(const struct exact_launch *launch)
{
	return launch->target->identity.comm;
}

/* ---- what it is ---- */

/* The facts of the program's own file; NULL: it could not be read. */
static const struct probe_info *facts_of_program(const struct target *target)
{
	const struct mappings *mappings = &target->mappings;

	for (size_t i = 0; i < mappings->used_nr; i++)
		if (is_path_of_mapping(mappings_used(mappings, i)->path, target->identity.exe))
			return mappings_used(mappings, i)->probe_info;
	return NULL;
}

static void read_mapped(void *launch_)
{
	struct exact_launch *launch = launch_;

	launch->err = launch->err ?: target__refresh(launch->target, launch->why);
}

/* -ECHILD: it has ended. */
static int open_program(struct exact_launch *launch)
{
	struct target *target = target__open(launch->pid, &launch->collector->objects, launch->why);
	const struct probe_info *facts = target ? facts_of_program(target) : NULL;
	int err;

	if (!target)
		return -errno;
	if (launch->target)
		target__free(launch->target);
	launch->target = target;
	err = launch_load(launch->pid, facts && facts->is_loader, &target->mappings, read_mapped, launch);
	if (err == -ESRCH)
		return reason_set(launch->why, -ECHILD, "%s has ended while it was loaded: nothing was recorded", name_of(launch));
	if (err)
		return reason_set(launch->why, err, "it cannot be held until it is loaded: %s", strerror(-err));
	read_mapped(launch);
	return launch->err;
}

static bool records_heap(const struct collector *collector)
{
	return collector->options.domains & COLLECTOR_MALLOC;
}

/* 0: hooks can go in; -ENOENT: its heap is recorded; -EAGAIN: not into this program, but it may become another one; or a refusal. */
static int judge_program(struct exact_launch *launch)
{
	const struct probe_info *facts = facts_of_program(launch->target);
	bool is_asked = launch->collector->options.domains & COLLECTOR_PYTHON;
	int err = is_asked ? python_hooks_find(launch->collector, launch->target, &launch->place, launch->why) : -ENOENT;

	if (err != -ENOENT || records_heap(launch->collector))
		return err;
	if (facts && facts->calls_exec)
		return -EAGAIN;
	return reason_set(launch->why, -ENOTSUP, "it runs no CPython, and --domain python records nothing else; its heap: "
			  "'allocsnap run --exact'");
}

/* ---- until it is a CPython ---- */

static void wait_on(void *launch_)
{
	struct exact_launch *launch = launch_;
	struct collector *collector = launch->collector;

	if (!launch->is_waiting_said && monotonic_now_ns() - launch->let_go_ns > WAITING_SAID_NS) {
		launch->is_waiting_said = true;
		notes_add(&collector->notes,
			  "process %d (%s) runs no CPython: nothing is recorded until it has become a program that does (exec), and "
			  "its children are not recorded; its heap: 'allocsnap run --exact' without --domain python",
			  launch->pid, name_of(launch));
	}
	if (collector->looks.between)
		collector->looks.between(collector->looks.between_what);
}

static int find_python_program(struct exact_launch *launch)
{
	int err;

	while (!(err = open_program(launch)) && (err = judge_program(launch)) == -EAGAIN) {
		launch->let_go_ns = monotonic_now_ns();
		err = launch_next(launch->pid, wait_on, launch);
		if (err && err != -ESRCH)
			return reason_set(launch->why, err, "it cannot be held when it becomes another program: %s", strerror(-err));
		if (err)
			return reason_set(launch->why, -ECHILD, "%s has ended, and has not become a program that runs CPython: nothing was "
					  "recorded; of what it has started, 'allocsnap run --follow-forks' records the heap", name_of(launch));
	}
	return err;
}

/* ---- the hooks ---- */

static void let_go(void *launch_)
{
	struct exact_launch *launch = launch_;

	launch->is_held = false;
	launch->let_go_ns = monotonic_now_ns();
	launch->err = launch_let_go(launch->pid);
}

static int plan_first_hooks(void *launch_, struct inject_python *ret, struct reason *why)
{
	struct exact_launch *launch = launch_;

	return python_hooks_plan_first(launch->target, &launch->place, ret, why);
}

static void note_unseen_start(struct exact_launch *launch, const struct inject_python *python)
{
	struct target *target = launch->target;
	const struct python_version *version = &launch->place.info->version;
	char size[UNIT_TEXT_MAX], blocks[96] = "how many is not known";

	target->python.unseen = (struct python_unseen){
		.ns = python->planned_ns - launch->let_go_ns, .nr = python->older_nr, .bytes = python->older_bytes,
	};
	if (!python->older_nr)
		snprintf(blocks, sizeof(blocks), "no small objects, but memory of the interpreter");
	else if (python->older_nr != UINT64_MAX)
		snprintf(blocks, sizeof(blocks), "%" PRIu64 " small objects of %s, and others", python->older_nr,
			 format_size(size, python->older_bytes, false));
	notes_add(&launch->collector->notes,
		  "process %d (%s) runs Python %u.%u.%u: every block is recorded, except from its first %.1f ms, before its Python "
		  "began (%s)%s",
		  launch->pid, name_of(launch), version->major, version->minor, version->micro, target->python.unseen.ns / 1e6, blocks,
		  probes_have_sessions(launch->collector->bpf) ? "; 'allocsnap run --domain python' has these, too" : "");
}

static int put_hooks(struct exact_launch *launch)
{
	struct collector *collector = launch->collector;
	struct target *target = launch->target;
	const struct inject_wait wait = {
		.let_go = let_go, .plan = plan_first_hooks, .what = launch,
		.arena_bytes = launch->place.info->pools.arena_bytes,
	};
	struct inject_python python = {};
	int err = begin_held(collector, target, launch->why) ?:
		  inject_hooks(collector, target, &python, &wait, &launch->times, launch->why);

	if (err)
		return err;
	target->life.started_ns = python.planned_ns;
	target__read_start_rss(target);
	note_unseen_start(launch, &python);
	err = probe_new_objects(collector, target, launch->why) ?: sources_check(collector, target, launch->why);
	target->late.judged_nr = target->late.seen_nr;
	return err || target->python.books ? err :
	       reason_set(launch->why, -ENOTSUP, "its objects are not recorded: %s", target->python.why_not.text);
}

/* ---- the library ---- */

/* It has not begun: it reads its variable at the first system call, and waits for us then. */
static int record_heap(struct exact_launch *launch)
{
	struct collector *collector = launch->collector;
	struct target *target = launch->target;
	int err = inject_check_overcommit(launch->why);

	if (err)
		return err;
	target->heap_books.is_used = true;
	err = begin_held(collector, target, launch->why) ?: probe_new_objects(collector, target, launch->why) ?:
	      sources_check(collector, target, launch->why);
	target->late.judged_nr = target->late.seen_nr;
	if (!err && launch_write_pid(launch->pid, EXACT_VARIABLE))
		err = reason_set(launch->why, -EIO, "its memory cannot be written");
	if (!err)
		let_go(launch);
	return err ?: launch->err;
}

/* ---- refusals ---- */

/* Says what has become of the program. After -ECHILD, or if it runs on, the caller waits for it. */
static int refuse_program(struct exact_launch *launch, int err, pid_t *ret_pid)
{
	struct reason why = *launch->why;
	const char *name = launch->target ? name_of(launch) : "the program";

	if (err == -ECHILD)
		return err;
	if (launch->is_held) {
		launch_end(launch->pid);
		*ret_pid = 0;
		notes_release(&launch->collector->notes); /* *why has it all */
		launch->collector->notes = (struct notes){};
		return reason_set(launch->why, err, "%s is not recorded: %s; it was %s", name, why.text,
				  launch->let_go_ns ? "ended" : "not started");
	}
	if (launch->err && launch->err != -ESRCH)
		return reason_set(launch->why, err, "%s cannot be let go: %s; it was ended", name, strerror(-launch->err));
	if (err == -ESRCH)
		return reason_set(launch->why, -ECHILD, "%s has ended before its Python began, or so soon after that it was not seen: nothing was recorded", name);
	return reason_set(launch->why, err, "%s is not recorded, and runs on: %s; %s; instead: 'allocsnap run --domain python'", name,
			  why.text, inject_change_text(launch->times.change));
}

int run_exactly(struct collector *collector, const char *const argv[], pid_t *ret_pid, struct reason *why)
{
	struct exact_launch launch = { .collector = collector, .is_held = true, .why = why };
	int err = check_injector(collector, why) ?: check_books_can_cut(why);
	pid_t pid = err ?: launch_program(collector, argv, ret_pid, why);

	if (pid < 0)
		return pid;
	launch.pid = pid;
	err = find_python_program(&launch);
	err = err == -ENOENT ? record_heap(&launch) : err ?: put_hooks(&launch);
	if (err)
		err = refuse_program(&launch, err, ret_pid);
	return launch.target ? take_held(collector, launch.target, err) : err;
}
