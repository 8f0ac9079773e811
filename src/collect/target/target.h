/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_H
#define ALLOCSNAP_COLLECT_TARGET_H

/*
 * A process that is recorded: its identity, its mappings, the probes in it. The loader keeps this after the
 * process has ended, so that there is a last snapshot with names.
 */

#include "base/idmap.h"
#include "collect/target/books.h"
#include "collect/budget/cost.h"
#include "collect/target/gone.h"
#include "collect/process/mapping_events.h"
#include "collect/process/mappings.h"
#include "collect/process/pace.h"
#include "collect/budget/pausing.h"
#include "collect/probe/probes.h"
#include "collect/process/rss.h"
#include "collect/budget/share.h"

/*
 * A frame: an object and an offset in it, or an address if object is OBJECT_NONE. OBJECT_SKIPPED stands for one
 * frame or more that a walk by frame pointers has missed.
 */
#define OBJECT_SKIPPED (OBJECT_NONE - 1)
struct code_place {
	uint32_t object;
	bool is_guessed;
	bool is_exact; /* not a return address */
	uint64_t offset;
};

/* A traceback that was resolved against the mappings once, when it was first seen. */
struct known_traceback {
	uint64_t id;
	uint32_t first, nframe; /* in target->place */
	uint32_t total_nframe;
	uint32_t flags; /* enum snap_traceback_flag */
	bool has_skipped, has_guessed;
	bool is_held; /* in the map at the last drain */
	struct churn retired; /* up to the time when it was last taken out of the map */
	struct churn churn;   /* in total, at the last drain */
};

/* An object that the image maps, and since when. Functions that are probed later than that are late. */
struct seen_object {
	uint32_t object;
	uint64_t since_ns;
};

struct target {
	pid_t pid;
	uint32_t slot; /* of its accounting, or BOOKS_NONE */
	int pidfd; /* readable when the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	uint64_t born_ns;    /* CLOCK_MONOTONIC: earlier events belong to another process or program with this PID */
	uint64_t started_ns; /* CLOCK_MONOTONIC when it was admitted */
	uint64_t rss_bytes, rss_at_start_bytes;
	struct rss rss; /* at the last drain at which the process ran */
	struct process books;	/* when last read */
	struct process drained; /* at the last drain */
	uint64_t cpu_before_ns; /* CPU time that the process had used when its recording began */
	struct cost_sum cost;	/* when `books` was read */
	struct cost_sum drained_cost;
	uint64_t exec_cnt, thread_exec_cnt; /* execs in the accounting that have been handled */
	uint64_t exec_event_cnt; /* how many of these events told of: the mappings belong to that image */
	bool has_ended;
	bool is_gone; /* the PID is free or another process has it, and there is no pidfd that would tell */
	bool is_final; /* the process had ended before the last drain */
	struct shown {
		uint64_t exec_cnt, clear_cnt; /* of the image and the traces that the numbers belong to */
		uint64_t last_bytes, most_bytes;
	} shown; /* as the snapshots that were written show it */
	bool is_near_oom; /* since the last snapshot */
	uint64_t assembled_bytes; /* live bytes in the latest snapshot */
	struct found_losses found; /* by all snapshots so far */
	bool is_touched; /* its mappings or its identity may have changed */
	bool is_seen_to; /* its exit has been handled */
	bool is_unsaved; /* since the last drain */
	bool was_saved;
	bool is_named; /* snapshots of this program exist under `comm` */
	bool has_gone_on; /* it has called exec of a program that is not recorded; events belong to that one */
	uint64_t late_nr; /* functions that were probed when the process could have called them already */
	struct seen_object *seen; /* each object once */
	size_t seen_nr, seen_alloc;
	size_t judged_nr; /* the first of `seen`: their late functions are in late_nr */
	uint64_t children_dropped_nr; /* children that could not be followed for lack of memory */
	uint64_t snapshots_lost; /* snapshots that could not be written */
	uint64_t leaderless_nr; /* refreshes that found threads, but no main thread */

	struct mappings mappings;
	uint64_t mapped_ns; /* when the mappings were read, or began: earlier events are included in them */
	uint64_t execed_ns; /* the last exec that an event told of */
	bool is_exe_due;    /* the next file that is mapped is the program */
	uint64_t missed_at_start; /* mapping events that the kernel dropped before the recording */
	struct probes own_probes;
	struct probes *probes; /* own_probes, or the shared ones (collector->everybody) */
	struct pausing own_pausing;
	struct share share; /* used when the probes are shared */
	struct pausing *pausing; /* own_pausing, or the shared one */
	uint64_t frames_unmapped;
	uint64_t changed_nr; /* the mappings.changed_nr that has been handled */
	struct pace pace;
	uint64_t copied_nr;   /* probed functions whose code the process has replaced by a copy (copied.h) */

	struct code_place *place;
	size_t place_nr, place_alloc;
	struct known_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids;
	struct churn others; /* sum of tracebacks that have been forgotten (forget.h) */
	uint64_t summed_nr;  /* number of forgotten tracebacks; one that came again is counted again */
};

/*
 * Opens the process that a PID or a TID belongs to. NULL and errno, with a line in *why: ESRCH (no such
 * process), ENOTSUP (a kernel thread), EPERM…
 */
struct target *target__open(pid_t id, struct objects *objects, struct reason *why);

/*
 * Makes the target of a process that began with a fork or an exec, from its accounting. The process may have
 * ended already. At first it has its parent's mappings; parent NULL: not known. began_ns: from that event on,
 * events of the PID belong to its program. NULL and errno ENOMEM.
 */
struct target *target__adopt(pid_t pid, const struct process *books, uint64_t began_ns,
			     const struct target *parent, struct objects *objects);

/* Reads mappings and RSS again. Harmless when the process has ended. */
int target__refresh(struct target *target, struct reason *why);

/* Reads the name, the program and the arguments again. 0 or -ENOMEM. */
int target__read_identity(struct target *target);

/* Whether the PID belonged to this target at that time. */
bool target__was_there(const struct target *target, uint64_t time_ns);

/* Applies a mapping event from the kernel. 0 or -ENOMEM. */
int target__take_event(struct target *target, const struct mapping_event *event);

/* Counts events that were too many to apply one by one: /proc/PID/maps will be read instead. */
void target__skip_events(struct target *target, const struct mapping_event *event);

/* Forgets all tracebacks, after the traces have been cleared. */
void target__forget_traces(struct target *target);

/*
 * Forgets everything about the old image, after an exec that the accounting shows. The probes stay. 0 or
 * -ENOMEM.
 */
int target__forget_image(struct target *target);

/* The resolution of a process's start time in /proc/PID/stat. */
uint64_t target__tick_ns(void);

/* Whether the process has ended. */
bool target__is_over(const struct target *target);

/* For a process without a pidfd, now and then: checks whether it still has its PID. */
void target__look_for(struct target *target);

/*
 * Writes the live images, sorted, two of each process: the one that was drained and the one in its accounting
 * now. An image that was given out just before next_image was read may appear in the accounting after the drain
 * read it; the accounting that is read again after the cut's grace period has it.
 */
void targets_images(struct target *const *target, size_t nr, uint64_t *ret_image);

/* NULL is allowed. The probes must have been closed. */
void target__free(struct target *target);

#endif
