// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/injection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/reason.h"
#include "inject/found_samplers.h"
#include "inject/inject.h"
#include "process/proc.h"
#include "collect/sources/block_sources.h"

#define INJECTED_PATH "/memfd:" INJECT_FILE_NAME
#define HOOKS_PATH "/memfd:" INJECT_HOOKS_NAME

/* NULL: this recording has injected no sampler into the process. */
static const struct injection *find_injection(const struct injections *injections, pid_t pid)
{
	return array_find(injections, injection, i, injections->injection[i].pid == pid && !injections->injection[i].is_exact);
}

bool object_is_injected(const struct object *object)
{
	return !strcmp(object->path, INJECTED_PATH);
}

static bool has_injected_name(const struct object *object)
{
	return object_is_injected(object) || !strcmp(object->path, HOOKS_PATH);
}

void find_copied_pages(const struct mappings *mappings)
{
	for (size_t i = 0; i < mappings->used_nr; i++) {
		struct object *object = mappings->objects->object[mappings->used[i]];
		uint64_t offset, original;

		if (!object->copies.offset && has_injected_name(object) && object->fd >= 0 &&
		    read_injected_copies(object->fd, &offset, &original))
			object->copies = (struct unwind_copies){ offset, original };
	}
}

/* ---- a process that has one ---- */

/* An ending process gives up its memory some time before it has ended. */
static bool has_memory(pid_t pid)
{
	uint64_t kib = 0;

	return !proc_status(pid, "VmRSS", &kib) && kib;
}

static struct inject_found look_for_injected(const struct target *target)
{
	struct inject_found found;
	struct reason why;
	int err = inject_find(target->identity.pid, &found, &why);

	if (err && (err != -ENOENT || !has_memory(target->identity.pid)))
		found.is_active = target->sampler.is_injected; /* it cannot be read now, or not any more: as it was */
	return found.kind != INJECT_HOOKS ? found : (struct inject_found){};
}

bool injected_sampler_is_called(const struct target *target)
{
	struct inject_found found = look_for_injected(target);

	return found.is_active && !found.is_unfinished && found.kind == INJECT_SAMPLER;
}

void note_injected(struct collector *collector, const struct target *target)
{
	pid_t pid = target->identity.pid;
	struct inject_found found;
	struct reason ignored;

	if (find_injection(&collector->sources->injections, pid) || inject_find(pid, &found, &ignored) ||
	    found.kind != INJECT_SAMPLER)
		return;
	if (found.owner_is_running)
		notes_add(&collector->notes,
			  "process %d (%s) has a sampler that another recording (process %d) has injected: its "
			  "samples are recorded, as long as that recording goes on", pid, target->identity.comm, found.owner);
	else
		notes_add(&collector->notes,
			  "process %d (%s) has a sampler that an earlier recording has left in it: its samples are "
			  "recorded; 'allocsnap eject %d' takes it out", pid, target->identity.comm, pid);
}

static void note_of_target(struct collector *collector, const struct target *target, const char *what)
{
	notes_add(&collector->notes, "process %d (%s): %s", target->identity.pid, target->identity.comm, what);
}

static bool has_injected_object(const struct mappings *mappings)
{
	return array_any(mappings->used_nr, i, has_injected_name(mappings_used(mappings, i)));
}

/* Whether an injected sampler, or hooks of another recording, take the calls that the probes of a recording wait for. */
static bool hides_heap(const struct target *target)
{
	return !target->sampler.is_used && !target->heap_books.is_used && has_injected_object(&target->mappings) && look_for_injected(target).is_active;
}

static void note_heap_change(struct collector *collector, const struct target *target, bool has_gone, bool is_hidden)
{
	if (has_gone && target->sampler.is_heap_left_out)
		note_of_target(collector, target, "the injected sampler went with the program that it was injected into: "
			       "from here on blocks of the heap are not recorded");
	else if (has_gone)
		note_of_target(collector, target, "the injected sampler has gone: from here on every block is recorded, at the "
			       "usual cost");
	if (is_hidden && !target->sampler.is_hidden)
		note_of_target(collector, target, "another recording has injected a sampler, which takes the calls that this "
			       "recording waits for: blocks of the heap are not recorded meanwhile");
}

/* Calls were missed from some time since the last look until now, if a sampler that was used has gone, or hides the heap. */
void judge_injected(struct collector *collector, struct target *target)
{
	struct target_sampler *sampler = &target->sampler;
	const struct injection *injection = find_injection(&collector->sources->injections, target->identity.pid);
	bool has_gone = sampler->is_injected && !sampler->is_used, is_hidden = target->life.started_ns && hides_heap(target);
	uint64_t now_ns = monotonic_now_ns();

	sampler->is_injected = sampler->is_used && object_is_injected(target->mappings.objects->object[sampler->object[0]]);
	sampler->stopped_ns = sampler->is_injected && injection ? injection->stopped_ns : 0;
	free(sampler->functions);
	sampler->functions = sampler->is_injected && injection ? strdup(injection->functions) : NULL;
	sampler->is_heap_left_out = injection && !sampler->is_used;
	note_heap_change(collector, target, has_gone, is_hidden);
	if (sampler->judged_ns && ((has_gone && !injection) || is_hidden || sampler->is_hidden))
		pausing_add_past(&target->budget.own, sampler->judged_ns, now_ns);
	sampler->is_hidden = is_hidden;
	sampler->judged_ns = now_ns;
}

int check_unfinished_injection(const struct target *target, struct reason *why)
{
	pid_t pid = target->identity.pid;

	if (!has_injected_object(&target->mappings) || !look_for_injected(target).is_unfinished)
		return 0;
	return reason_set(why, -ENOTSUP, "process %d (%s): a recording was killed while it put a sampler in, or took it out: "
			  "blocks of the heap cannot be recorded. 'allocsnap eject %d' takes it out", pid,
			  target->identity.comm, pid);
}

int check_injected(struct collector *collector, const struct target *target, struct reason *why)
{
	pid_t pid = target->identity.pid;

	if (find_injection(&collector->sources->injections, pid) && !target->sampler.is_used)
		return reason_set(why, -ENOTSUP, "process %d (%s): the injected sampler cannot be used, as its probes cannot be placed",
				  pid, target->identity.comm);
	if (!(collector->options.domains & ~COLLECTOR_MMAP) || !hides_heap(target))
		return 0;
	return check_unfinished_injection(target, why) ?:
	       reason_set(why, -ENOTSUP, "process %d (%s) has an injected sampler, which takes the calls of malloc: probes on "
			  "malloc would see nothing. Record its samples (without --no-sampler), or 'allocsnap eject %d' first",
			  pid, target->identity.comm, pid);
}

bool injects_heap_books(const struct injections *injections, pid_t pid)
{
	return array_any(injections->injection_nr, i,
			 injections->injection[i].pid == pid && injections->injection[i].is_exact && injections->injection[i].functions);
}

void forget_injection(struct injections *injections)
{
	free(injections->injection[--injections->injection_nr].functions);
}

void injections_release(struct injections *injections)
{
	while (injections->injection_nr)
		forget_injection(injections);
	free(injections->injection);
	*injections = (struct injections){};
}
