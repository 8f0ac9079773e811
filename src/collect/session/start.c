// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Begins the recording of a process. */
#include "collect/session/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/reason.h"
#include "collect/probe/hazards.h"
#include "process/launch.h"
#include "collect/recording/admission.h"
#include "collect/sources/copied_functions.h"
#include "exact/exact_preload.h"
#include "sandbox/client.h"

/* Finds a file that would be probed if all heaps were recorded. NULL: no such file, or all heaps are recorded. */
static const char *heap_left_out(const struct objects *objects, const struct mappings *mappings)
{
	if (objects->domains & COLLECTOR_MALLOC)
		return NULL;
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (object_has_heap(mappings_used(mappings, i)))
			return mappings_used(mappings, i)->path;
	return NULL;
}

static int report_nothing_found(const struct collector *collector, const struct target *target, struct reason *why)
{
	const struct mappings *mappings = &target->mappings;
	const char *left_out = heap_left_out(&collector->objects, mappings), *domain;
	const char *given = sources_option_given(&collector->options, &domain);

	if (left_out)
		return reason_set(why, -ENOENT,
				  "process %d (%s): has none of the chosen domains%s%s%s%s; domain malloc would record the heap of %s",
				  target->identity.pid, target->identity.comm, given ? ": " : "", given ?: "",
				  given ? " stands for the domain " : "", given ? domain : "", left_out);
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (mappings_used(mappings, i)->is_put_off)
			return reason_set(why, -ENOENT, "process %d (%s): cannot probe %s: it is open for writing",
					  target->identity.pid, target->identity.comm,
					  mappings_used(mappings, i)->path);
	for (size_t i = 0; i < mappings->used_nr; i++)
		if (mappings_used(mappings, i)->unreadable)
			return reason_set(why, -ENOENT,
					  "process %d (%s): found no allocator function; cannot read %s: %s",
					  target->identity.pid, target->identity.comm, mappings_used(mappings, i)->path,
					  mappings_used(mappings, i)->unreadable);
	if (target->probes.used->failed_nr && why && *why->text)
		return -ENOENT;
	if (copied_is_away(target->identity.pid, target->identity.exe))
		return reason_set(why, -ENOENT,
				  "process %d (%s): runs a copy of its code in anonymous memory, where nothing can be probed",
				  target->identity.pid, target->identity.comm);
	if (sources_why_unused(target))
		return reason_set(why, -ENOENT, "process %d (%s): %s", target->identity.pid, target->identity.comm,
				  sources_why_unused(target));
	return reason_set(
		why, -ENOENT,
		"process %d (%s): no file that it maps defines malloc or another known allocator function",
		target->identity.pid, target->identity.comm);
}

static void note_tracer(const struct shared_probes *shared, struct notes *notes,
			const struct process_identity *identity, const struct probes *probes)
{
	struct reason note;

	if (shared->has_return_calls && !probes->by_ret && hazard_of_tracer(identity->pid, &note))
		notes_add(notes, "%s", note.text);
}

int find_probes(struct collector *collector, struct target *target, struct reason *why)
{
	int err = probe_new_objects(collector, target, why);

	note_tracer(&collector->shared, &collector->notes, &target->identity, target->probes.used);
	copied_count(&collector->objects, &collector->notes, target);
	if (!err && !probes_see_allocations(target->probes.used) && !sources_are_used(target))
		err = report_nothing_found(collector, target, why);
	return err;
}

static int begin_target_account(struct accounts *accounts, struct target *target, const struct process *as, struct reason *why)
{
	struct process process = *as;
	int err;

	process.memory = process.image;
	process.start_span_ns = target__tick_ns();
	process.start_boottime_ns = target->identity.start_ticks * process.start_span_ns;
	err = accounts_begin(accounts, target->identity.pid, &process, &target->slot);
	target->probes.own.slot = target->probes.beside.slot = target->slot;
	return err ? reason_set(why, err, "cannot record process %d: %s", target->identity.pid,
				err == -E2BIG ? "too many processes" : strerror(-err)) : 0;
}

static void begin_time(struct target *target)
{
	target->life.started_ns = target->life.born_ns = monotonic_now_ns();
	cpu_time_read(target->identity.pid, &target->life.cpu_before_ns); /* stays 0 if the process has just ended */
}

/*
 * The accounting begins closed, while the probes are placed one after another. So the probes note the calls in
 * flight, but no block enters that only some of the probes could follow.
 */
static int start_target(struct collector *collector, struct target *target, uint32_t user, struct reason *why)
{
	struct process account = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
		.by_ret = target->probes.used->by_ret,
		.follows = collector->options.follow_forks,
		.user = user,
	};
	int err = begin_target_account(&collector->targets.accounts, target, &account, why) ?:
			  find_probes(collector, target, why);
	err = err ?: sources_check(collector, target, why);
	if (err == -ENOENT && collector->options.system_wide)
		err = 0; /* it may map an allocator later, for example after an exec */
	if (err)
		return err;
	begin_time(target);
	accounts_admit_blocks(&collector->targets.accounts, target->slot, target->probes.used->by_ret);
	target__read_start_rss(target);
	target->late.judged_nr = target->late.seen_nr; /* the accounting has nothing from before */
	return 0;
}

static void choose_probes(struct collector *collector, struct target *target)
{
	own_links_choose(collector, target);
	target_begin_budget(collector, target);
}

/* A PID is reused. The last snapshot of its earlier owner is not dropped unless the caller asks for that. */
static int check_is_same(const struct target *traced, const struct target *target, struct reason *why)
{
	if (traced->identity.start_ticks == target->identity.start_ticks)
		return 0;
	return reason_set(why, -EEXIST,
			  "another process has PID %d now: stop tracing the earlier one first",
			  target->identity.pid);
}

/* Does what must precede a start. The new process may be a child that is not known yet: the refresh finds it. */
static int prepare_start(struct collector *collector, struct reason *why)
{
	int err = helpers_check(&collector->helpers, why);

	if (err)
		return err;
	pause_spenders(collector);
	if (collector->options.follow_forks)
		collector_refresh_all(collector);
	return 0;
}

/* user: see struct process. 0 for a process that the caller named. */
static int begin_process(struct collector *collector, pid_t id, uint32_t user, struct reason *why)
{
	struct target *target;
	int err;

	target = target__open(id, &collector->objects, why);
	if (!target)
		return -errno;
	if (find_target(&collector->targets, target->identity.pid)) {
		err = check_is_same(find_target(&collector->targets, target->identity.pid), target, why);
		target__free(target);
		return err;
	}
	target->heap_books.is_used = injects_heap_books(&collector->sources->injections, target->identity.pid);
	choose_probes(collector, target);
	err = resume_shared(collector) ?: start_target(collector, target, user, why);
	if (err == -ESRCH || target__is_ending(target)) /* whatever failed because of it, or did not notice it */
		err = reason_set(why, -ESRCH, "process %d ended while it was being probed", target->identity.pid);
	err = err ?: add_target(collector, target);
	if (err)
		close_target(collector, target);
	return err;
}

int collector__start(struct collector *collector, pid_t id, struct reason *why)
{
	int err = prepare_start(collector, why) ?: begin_process(collector, id, 0, why);

	if (!err)
		apply_budgets(collector);
	return err;
}

/* Processes that have ended since they were found, or whose PID has a new owner, do not count as begun. */
int collector__admit(struct collector *collector, struct reason *why)
{
	struct admissible_process *found = NULL;
	size_t nr = 0, refused = 0;
	int err, begun = 0;

	if (!collector->options.system_wide)
		return 0;
	err = prepare_start(collector, why) ?: admission_find(collector->bpf, &found, &nr);
	for (size_t i = 0; i < nr && err != -ENOMEM; i++) {
		struct reason why_not = {};

		err = accounts_user_has_share(&collector->targets.accounts, found[i].user) ?
		      begin_process(collector, found[i].tgid, found[i].user, &why_not) : -E2BIG;
		begun += !err;
		refused += err == -E2BIG;
	}
	if (refused > collector->totals.not_admitted_nr)
		collector->totals.ever_refused_nr += refused - collector->totals.not_admitted_nr;
	collector->totals.not_admitted_nr = refused;
	free(found);
	if (nr)
		apply_budgets(collector);
	return nr ? begun : err ? reason_set(why, err, "cannot look for processes to record: %s",
					     strerror(-err)) : 0;
}

/* A target that is held at its start. */
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

int begin_held(struct collector *collector, struct target *target, struct reason *why)
{
	struct process account = {
		.image = __atomic_fetch_add(&collector->bpf->data->next_image, 1,
					    __ATOMIC_RELAXED),
		.is_open = 1,
		.follows = collector->options.follow_forks,
	};
	int err;

	choose_probes(collector, target);
	account.by_ret = target->probes.used->by_ret;
	err = resume_shared(collector);
	begin_time(target);
	return err ?: begin_target_account(&collector->targets.accounts, target, &account, why);
}

static int start_held(struct held *held)
{
	struct collector *collector = held->collector;
	struct target *target = held->target;
	int err;

	held->err = begin_held(collector, target, held->why);
	probe_mapped(held);
	/* For a program that becomes Python; while this one is held, because loading takes some tenths of a second. */
	if (!held->err)
		sources_preload(collector); /* without them its heap stays recorded, and a note says so */
	err = launch_release(target->identity.pid, &target->mappings, probe_mapped, held);
	if (err && err != -ESRCH)
		return reason_set(held->why, err, "cannot hold %s until it is loaded: %s; it was ended before it began",
				  target->identity.comm, strerror(-err));
	target->late.judged_nr = target->late.seen_nr; /* it was held meanwhile */
	if (!held->err && !probes_see_allocations(target->probes.used) && !sources_are_used(target) &&
	    !copied_has_any(&target->mappings))
		held->err = report_nothing_found(collector, target, held->why);
	if (!held->err)
		held->err = sources_check(collector, target, held->why);
	return held->err;
}

pid_t launch_program(struct collector *collector, const char *const argv[], pid_t *ret_pid, struct reason *why)
{
	bool preloads = collector->options.run_exact && collector->options.domains & COLLECTOR_MALLOC;
	const char *name = collector->options.run_user;
	struct launch_user user = {};
	struct launch launch = {
		.argv = argv,
		.files = &collector->files_before,
		.user = name ? &user : NULL,
		.preloaded = preloads ? "library that records it" : collector->options.run_interval_bytes ? "sampler" : NULL,
	};
	pid_t pid = preloads && setenv(EXACT_VARIABLE, LAUNCH_PID_ROOM, 1) ? -ENOMEM : 0;

	if (!pid && name)
		pid = launch_user_find(name, &user, why);

	pid = pid ?: launch_start(&launch, why);
	launch_user_release(&user);
	if (preloads)
		unsetenv(EXACT_VARIABLE);
	if (pid > 0)
		*ret_pid = pid;
	else if (launch.has_exec_failed)
		*ret_pid = -1;
	return launch.has_ended ? -ECHILD : pid;
}

int take_held(struct collector *collector, struct target *target, int err)
{
	err = err ?: add_target(collector, target);
	if (err)
		close_target(collector, target);
	else
		apply_budgets(collector);
	return err;
}

int collector__run(struct collector *collector, const char *const argv[], pid_t *ret_pid, struct reason *why)
{
	struct held held = { .collector = collector, .why = why };
	int err = helpers_check(&collector->helpers, why);
	pid_t pid;

	if (!err && collector->options.run_exact)
		return run_exactly(collector, argv, ret_pid, why);
	pid = err ?: launch_program(collector, argv, ret_pid, why);
	if (pid < 0)
		return pid;
	held.target = target__open(pid, &collector->objects, why);
	if (!held.target) {
		err = -errno;
		launch_release(pid, &(struct mappings){}, NULL, NULL);
		return err;
	}
	return take_held(collector, held.target, start_held(&held));
}
