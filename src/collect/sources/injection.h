/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SOURCES_INJECTION_H
#define ALLOCSNAP_COLLECT_SOURCES_INJECTION_H

/*
 * Samplers that are injected into processes that run (collect/inject), by this recording or by another one.
 *
 *	collector__inject()	plan; the link holder promises to eject; inject
 *	collector__start()	finds the sampler's probes in the process, as of any sampler (sampler_source.c)
 *	collector__eject()	the probes go, the link holder ejects
 *
 * While a sampler is injected, probes on the allocator's functions see nothing: their pages are replaced.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct collector;
struct mappings;
struct object;
struct reason;
struct target;

/* Without these there is no link holder (collect/probe). */
#define INJECTION_NEEDS_LINKS "this kernel has no links of many uprobes, and no process of allocsnap could take out again what was put in"

/* A process into which this recording has injected a sampler, or hooks. */
struct injection {
	pid_t pid;
	uint64_t stopped_ns;
	bool is_exact;	 /* hooks, and no sampler */
	char *functions; /* of allocators that were taken over: text of the snapshot. NULL: hooks of a CPython */
};

struct injections {
	struct injection *injection;
	size_t injection_nr, injection_alloc;
};

/* Whether hooks in a process enter the blocks of its heap into books. */
bool injects_heap_books(const struct injections *injections, pid_t pid);

/* Forgets the latest. */
void forget_injection(struct injections *injections);

void injections_release(struct injections *injections);

/* Whether an object is the file of such a sampler. It may be one that was ejected and stayed mapped. */
bool object_is_injected(const struct object *object);

/* Whether the process's allocators call an injected sampler now. */
bool injected_sampler_is_called(const struct target *target);

/* One was killed amid the way in or out: what it left takes some calls of malloc, and the others are not seen. 0 or -ENOTSUP. */
int check_unfinished_injection(const struct target *target, struct reason *why);

/* Finds the allocators' pages in the files of samplers, for tracebacks; before the files' unwind tables are made. */
void find_copied_pages(const struct mappings *mappings);

/* Says whose sampler it is that is recorded. */
void note_injected(struct collector *collector, const struct target *target);

/* Called when the sampler of a target was looked for: what becomes of the heap if there is an injected one. */
void judge_injected(struct collector *collector, struct target *target);

/* At the start of a recording: an error if an injected sampler is in the way of probes, or was injected in vain. */
int check_injected(struct collector *collector, const struct target *target, struct reason *why);

#endif
