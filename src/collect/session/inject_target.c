// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Puts samplers into processes, and takes them out: the public half of sources/injection.h. */
#include "collect/session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/text_stream.h"
#include "inject/inject.h"
#include "collect/probe/link_holder.h"
#include "collect/sources/injection.h"
#include "collect/sources/python_hooks_plan.h"
#include "collect/sources/ways.h"
#include "exact/books_reader.h"
#include "process/proc.h"

/* ---- injecting the sampler ---- */

struct injection_try {
	pid_t pid;
	struct inject_times times;
	struct reason found; /* the line of the engine */
};

/* How to record the process without a sampler of ours; NULL: not at all. Looks at its files, and places nothing. */
static const char *way_without(struct collector *collector, pid_t pid)
{
	struct reason ignored = {};
	struct target *target = target__open(pid, &collector->objects, &ignored);
	struct notes before = collector->notes;
	const char *way = NULL;

	if (!target)
		return NULL;
	collector->notes = (struct notes){};
	target->probes.own.pid = target->identity.pid;
	target->probes.own.is_trial = true;
	if (!find_probes(collector, target, &ignored))
		way = sources_have_own_rate(target) ? "attach" : "attach --max-overhead 10";
	probes_close(&target->probes.own);
	target__free(target);
	notes_release(&collector->notes);
	collector->notes = before;
	return way;
}

/* Other ways to record its heap, if it is in order, and nothing was changed. */
static void name_other_ways(struct collector *collector, pid_t pid, int err, struct reason *ret)
{
	bool is_possible = err == -ENOTSUP || err == -EAGAIN || err == -EEXIST;
	const char *way = is_possible ? way_without(collector, pid) : NULL;
	bool preloads = is_possible && err != -EEXIST && can_preload(pid);

	ret->text[0] = '\0';
	if (way && preloads)
		reason_set(ret, 0, "; instead: 'allocsnap %s %d', or 'allocsnap run --fast' at its next start", way, pid);
	else if (way)
		reason_set(ret, 0, "; instead: 'allocsnap %s %d'", way, pid);
	else if (preloads)
		reason_set(ret, 0, "; instead: 'allocsnap run --fast' at its next start");
}

const char *inject_change_text(enum inject_change change)
{
	static const char *const text[] = {
		[INJECT_UNCHANGED] = "nothing was changed",
		[INJECT_TAKEN_BACK] = "what was changed was taken back",
		[INJECT_LEFT] = "something is left in it, which 'allocsnap eject' takes out",
	};

	return text[change];
}

/* The line of the engine says why; this adds what it means here. */
static int refuse_injection(struct collector *collector, const struct injection_try *try, int err, struct reason *why)
{
	struct inject_found there;
	struct reason ignored, ways;
	pid_t pid = try->pid;

	if (proc_is_ending(pid)) /* whatever failed because of it */
		return reason_set(why, -ESRCH, "process %d has ended", pid);
	if (err != -EEXIST || inject_find(pid, &there, &ignored) || !there.is_active) {
		name_other_ways(collector, pid, err, &ways);
		return reason_set(why, err, "cannot inject into process %d: %s; %s%s", pid, try->found.text,
				  inject_change_text(try->times.change), ways.text);
	}
	if (there.owner_is_running)
		return reason_set(why, err, "process %d has %s that another recording (process %d) has injected%s", pid,
				  inject_kind_text(there.kind), there.owner, there.kind != INJECT_SAMPLER ?
				  ": only that one has its blocks" : ": without --inject its samples are recorded, too");
	return reason_set(why, err, "process %d has %s that an earlier recording has left in it: 'allocsnap eject %d' takes it out",
			  pid, inject_kind_text(there.kind), pid);
}

/* "malloc, free of /lib/libc.so.6; …": what the sampler takes over. The caller frees *ret. */
static int functions_text(const struct inject_plan *plan, char **ret)
{
	size_t bytes;
	FILE *out = open_memstream(ret, &bytes);
	bool is_bad;

	if (!out)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		const struct inject_allocator *allocator = &plan->allocator[i];

		for (uint32_t k = 0; k < allocator->function_nr; k++)
			fprintf(out, "%s%s", k ? ", " : i ? "; " : "", allocator->function[k].name);
		fprintf(out, " of %s", allocator->path);
	}
	is_bad = ferror(out);
	return text_stream_close(out, ret) ?: is_bad ? -ENOMEM : 0;
}

/* If this fails, the link holder has ended, which helpers_check() notices. */
static void tell_files(struct link_holder *link_holder, const struct inject_plan *plan)
{
	struct inject_file file[INJECT_ALLOCATORS_MAX];
	uint32_t nr = 0;

	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		const struct inject_allocator *allocator = &plan->allocator[i];

		if (allocator->start)
			file[nr++] = (struct inject_file){ allocator->start, allocator->sampler_dev, allocator->sampler_inode };
	}
	link_holder__tell_files(link_holder, plan->pid, file, nr);
}

/* A sampler, or hooks at the same places. */
static int inject_planned(struct collector *collector, struct inject_plan *plan, uint64_t interval,
			  struct injection_try *try)
{
	struct link_holder *link_holder = collector->helpers.link_holder;
	bool is_exact = interval == COLLECTOR_INJECT_EXACT;
	const struct inject_options options = {
		.interval = is_exact ? 0 : interval, .owner = link_holder__pid(link_holder), .is_exact = is_exact,
	};
	struct injection injection = { .pid = plan->pid, .is_exact = is_exact };
	int err = functions_text(plan, &injection.functions) ?: array_push(&collector->sources->injections, injection, injection);

	if (err) {
		free(injection.functions);
		return reason_set(&try->found, err, "%s", strerror(-err));
	}
	err = link_holder__hold_sampler(link_holder, plan->pid);
	if (err)
		reason_set(&try->found, err, "%s", strerror(-err));
	else
		err = inject_execute(plan, &options, NULL, &try->times, &try->found);
	tell_files(link_holder, plan);
	if (err)
		forget_injection(&collector->sources->injections);
	else
		collector->sources->injections.injection[collector->sources->injections.injection_nr - 1].stopped_ns = try->times.stopped_ns;
	return err;
}

/* ---- hooks ---- */

static int take_books(struct collector *collector, pid_t pid, const struct inject_python *python, int fd, uint64_t stopped_ns,
		      struct reason *ret)
{
	struct python_books new = { .pid = pid, .stopped_ns = stopped_ns, .tracer = { python->tracer.address, python->tracer.put } };
	int err;

	for (int i = 0; i < PYTHON_WORDS; i++) {
		new.word[i].address = python->word[i / PYTHON_OPERATION_NR][i % PYTHON_OPERATION_NR].address;
		new.word[i].put = python->word[i / PYTHON_OPERATION_NR][i % PYTHON_OPERATION_NR].put;
	}
	err = python_books_add(&collector->sources->python_books, &new, fd);
	return err ? reason_set(ret, err, "its books cannot be opened: %s", strerror(-err)) : 0;
}

int check_books_can_cut(struct reason *why)
{
	return books_can_cut() ? 0 :
	       reason_set(why, -ENOTSUP, "this kernel makes no barrier for all threads (membarrier, nohz_full)");
}

int inject_hooks(struct collector *collector, const struct target *target, struct inject_python *python,
		 const struct inject_wait *wait, struct inject_times *ret, struct reason *why)
{
	pid_t pid = target->identity.pid;
	struct link_holder *link_holder = collector->helpers.link_holder;
	const struct inject_options options = { .owner = link_holder__pid(link_holder) };
	const struct injection injection = { .pid = pid, .is_exact = true };
	struct inject_books books;
	struct inject_file file = {};
	int err = array_push(&collector->sources->injections, injection, injection);

	if (err)
		return reason_set(why, err, "%s", strerror(-err));
	err = link_holder__hold_sampler(link_holder, pid);
	if (err)
		reason_set(why, err, "%s", strerror(-err));
	else
		err = inject_python_execute(pid, target->identity.start_ticks, python, wait, &options, &books, &file, ret, why);
	link_holder__tell_files(link_holder, pid, &file, file.start != 0);
	if (err)
		forget_injection(&collector->sources->injections);
	return err ?: take_books(collector, pid, python, books.fd, ret->stopped_ns, why);
}

/* -ENOENT: it runs no CPython. */
static int inject_python(struct collector *collector, struct injection_try *try)
{
	struct target *target = target__open(try->pid, &collector->objects, &try->found);
	struct inject_python python;
	struct found_python place;
	int err;

	if (!target)
		return -errno == -ENOENT ? -ENOTSUP : -errno;
	err = python_hooks_find(collector, target, &place, &try->found);
	if (!err)
		err = python_hooks_plan(target, &place, &python, &try->found) ?:
		      inject_hooks(collector, target, &python, NULL, &try->times, &try->found);
	else if (err == -ENOENT && !(collector->options.domains & COLLECTOR_MALLOC))
		err = -ENOTSUP;
	target__free(target);
	return err == -EINPROGRESS ? -EAGAIN : err;
}

static int inject_allocators(struct collector *collector, uint64_t interval, struct injection_try *try)
{
	struct inject_plan *plan;
	int err = inject_plan_make(collector->helpers.sandbox, try->pid, &plan, &try->found);

	err = err ?: inject_planned(collector, plan, interval, try);
	inject_plan_free(plan);
	return err;
}

/* A CPython's objects, or the heap of any other process, as the domains say. */
static int inject_exactly(struct collector *collector, struct injection_try *try)
{
	struct inject_found there;
	int err = check_books_can_cut(&try->found);

	if (err)
		return err;
	if (!inject_find(try->pid, &there, &try->found) && there.is_active)
		return -EEXIST;
	err = collector->options.domains & COLLECTOR_PYTHON ? inject_python(collector, try) : -ENOENT;
	return err == -ENOENT ? inject_allocators(collector, COLLECTOR_INJECT_EXACT, try) : err;
}

int check_injector(struct collector *collector, struct reason *why)
{
	int err = helpers_check(&collector->helpers, why);

	return err || collector->helpers.link_holder ? err :
	       reason_set(why, -ENOTSUP, "cannot inject: %s", INJECTION_NEEDS_LINKS);
}

int collector__inject(struct collector *collector, pid_t pid, uint64_t sample_bytes, struct reason *why)
{
	struct injection_try try = { .pid = pid, .found = { "out of memory" } };
	int err = check_injector(collector, why);

	if (err)
		return err;
	err = sample_bytes == COLLECTOR_INJECT_EXACT ? inject_exactly(collector, &try) :
						       inject_allocators(collector, sample_bytes, &try);
	return err ? refuse_injection(collector, &try, err, why) : 0;
}

/* ---- ejecting it ---- */

/* Names for the thing that was injected. */
struct injected_words {
	const char *what, *is, *stays, *it, *does, *them;
};

static const struct injected_words injected_words[] = {
	{ "the sampler", "was", "stays", "it", "only counts bytes", "it" },
	{ "the hooks", "were", "stay", "they", "only pass on", "them" },
};

static void note_ejected(struct collector *collector, pid_t pid, const struct injected_words *words,
			 const struct link_holder_ejection *ejection)
{
	if (ejection->value)
		notes_add(&collector->notes, "%s %s in process %d, where %s %s: %s; 'allocsnap eject %d' takes %s out", words->what, words->stays, pid, words->it,
			  words->does, *ejection->why.text ? ejection->why.text : strerror(-ejection->value), pid, words->them);
	else if (ejection->kept_nr)
		notes_add(&collector->notes,
			  "%s %s taken out of process %d; its code stays mapped and is not called, as a thread may still return "
			  "to it ('allocsnap eject %d' later unmaps it)", words->what, words->is, pid, pid);
	else
		notes_add(&collector->notes, "%s %s taken out of process %d", words->what, words->is, pid);
}

/* A child's hooks only pass on, and go with its end or its exec. */
static void note_children_left(struct collector *collector, pid_t pid, const struct injected_words *words,
			       const struct link_holder_ejection *ejection)
{
	notes_add(&collector->notes,
		  "%s %s in %" PRIu32 " process%s forked from process %d, and %s: 'allocsnap eject %d' takes %s out%s",
		  words->what, words->stays, ejection->child_nr, ejection->child_nr == 1 ? "" : "es", pid, words->does, ejection->child,
		  words->them, ejection->child_nr == 1 ? "" : " of one of them");
}

/* Whether something stays, in the process or its children; notes say what. */
static bool note_ejection(struct collector *collector, pid_t pid, bool is_exact, const struct link_holder_ejection *ejection)
{
	bool has_ended = ejection->value == -ESRCH || ejection->value == -ENOENT; /* or it has another program */

	if (!has_ended)
		note_ejected(collector, pid, &injected_words[is_exact], ejection);
	if (ejection->child_nr)
		note_children_left(collector, pid, &injected_words[is_exact], ejection);
	return ejection->child_nr || (!has_ended && (ejection->value || ejection->kept_nr));
}

size_t collector__eject(struct collector *collector)
{
	struct injections *injections = &collector->sources->injections;
	struct link_holder_ejection ejection;
	size_t left_nr = 0;

	if (!injections->injection_nr)
		return 0;
	for (size_t i = 0; i < injections->injection_nr; i++)
		collector__stop(collector, injections->injection[i].pid);
	link_holder__settle(collector->helpers.link_holder);
	while (injections->injection_nr) {
		const struct injection *injection = &injections->injection[injections->injection_nr - 1];
		pid_t pid = injection->pid;
		bool is_exact = injection->is_exact;

		forget_injection(injections);
		link_holder__eject(collector->helpers.link_holder, pid, &ejection);
		left_nr += note_ejection(collector, pid, is_exact, &ejection);
	}
	return left_nr;
}
