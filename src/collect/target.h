/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_H
#define ALLOCSNAP_COLLECT_TARGET_H

/*
 * A process that is recorded: who it is, what it maps, what was probed in it. What is known of
 * it outlives it, so that there is a last snapshot with names after its end.
 */

#include "base/idmap.h"
#include "collect/mappings.h"
#include "collect/probes.h"

/*
 * A frame: where in which object; an address where object is OBJECT_NONE. OBJECT_SKIPPED stands
 * for one frame or more that a walk by frame pointers has passed over.
 */
#define OBJECT_SKIPPED (OBJECT_NONE - 1)
struct code_place {
	uint32_t object;
	uint64_t offset;
};

/* A traceback that has been resolved against the mappings, once, when it was first seen. */
struct known_traceback {
	uint64_t id;
	uint32_t first, nframe; /* in target->place */
	uint32_t total_nframe;
	uint32_t flags; /* enum snap_traceback_flag */
	bool has_skipped;
	struct churn retired; /* of the time before it was last taken out of the map */
	struct churn churn;   /* all of it, as of the last drain */
};

struct target {
	pid_t pid;
	int pidfd; /* readable once the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	uint64_t started_ns; /* CLOCK_MONOTONIC when it was admitted */
	uint64_t rss_bytes, rss_at_start_bytes;
	uint64_t exec_cnt, thread_exec_cnt; /* seen so far */
	bool has_ended;
	uint64_t leaderless_nr; /* refreshes that found threads, but not the main one */

	struct mappings mappings;
	struct probes probes;
	size_t object_probed_nr; /* objects of mappings that were looked at for allocators */
	uint64_t frames_unmapped;
	uint64_t replaced_nr; /* mappings.replaced_nr that has been seen to */

	struct code_place *place;
	size_t place_nr, place_alloc;
	struct known_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids;
};

/*
 * Opens the process that a PID or a TID belongs to. NULL and errno, with a line in *why: ESRCH
 * no such process, ENOTSUP a kernel thread, EPERM…
 */
struct target *target__open(pid_t id, struct reason *why);

/* Reads again what may change: mappings, RSS, command name. Harmless once it has ended. */
int target__refresh(struct target *target, struct reason *why);

/* After its traces have been cleared: tracebacks are not known any more. */
void target__forget_traces(struct target *target);

/* After an exec: nothing of the old image is known any more; the probes stay. */
void target__forget_image(struct target *target);

/* NULL is allowed; probes must have been closed. */
void target__free(struct target *target);

#endif
