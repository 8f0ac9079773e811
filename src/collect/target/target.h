/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_H
#define ALLOCSNAP_COLLECT_TARGET_H

/*
 * A process that is recorded: who it is, what it maps, what was probed in it. What is known of
 * it outlives it, so that there is a last snapshot with names after its end.
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
 * A frame: where in which object; an address where object is OBJECT_NONE. OBJECT_SKIPPED stands
 * for one frame or more that a walk by frame pointers has passed over.
 */
#define OBJECT_SKIPPED (OBJECT_NONE - 1)
struct code_place {
	uint32_t object;
	bool is_guessed;
	bool is_exact; /* not a return address */
	uint64_t offset;
};

/* A traceback that has been resolved against the mappings, once, when it was first seen. */
struct known_traceback {
	uint64_t id;
	uint32_t first, nframe; /* in target->place */
	uint32_t total_nframe;
	uint32_t flags; /* enum snap_traceback_flag */
	bool has_skipped, has_guessed;
	bool is_held; /* in the map, as of the last drain */
	struct churn retired; /* of the time before it was last taken out of the map */
	struct churn churn;   /* all of it, as of the last drain */
};

/* An object that the image has mapped, and since when: what is probed later is probed late. */
struct seen_object {
	uint32_t object;
	uint64_t since_ns;
};

struct target {
	pid_t pid;
	uint32_t slot; /* of its books; BOOKS_NONE */
	int pidfd; /* readable once the process has ended */
	uint64_t start_ticks;
	char *comm, *exe, *cmdline, *cgroup;
	uint64_t born_ns;    /* CLOCK_MONOTONIC: events of before are of another process or program with its pid */
	uint64_t started_ns; /* CLOCK_MONOTONIC when it was admitted */
	uint64_t rss_bytes, rss_at_start_bytes;
	struct rss rss; /* as of the last drain at which it ran */
	struct process books;	/* as last looked at */
	struct process drained; /* as of the last drain */
	uint64_t cpu_before_ns; /* CPU time that it had had when the recording of it began */
	struct cost_sum cost;	/* as of `books` */
	struct cost_sum drained_cost;
	uint64_t exec_cnt, thread_exec_cnt; /* seen so far, in the books */
	uint64_t exec_event_cnt; /* of these, told by events: mappings are of the new image */
	bool has_ended;
	bool is_gone; /* its PID is free, or another process's, and there is no pidfd to tell */
	bool is_final; /* it had ended before the last drain */
	struct shown {
		uint64_t exec_cnt, clear_cnt; /* of the image and the traces that these are of */
		uint64_t last_bytes, most_bytes;
	} shown; /* by the snapshots that were written */
	bool is_near_oom; /* since the last of them */
	uint64_t assembled_bytes; /* live in the snapshot that was made last */
	struct found_losses found; /* by the snapshots so far */
	bool is_touched; /* what it maps, or what it is, has changed */
	bool is_seen_to; /* its end was */
	bool is_unsaved; /* since the last drain */
	bool was_saved;
	bool is_named; /* there are snapshots of this program under `comm` */
	bool has_gone_on; /* as a program that is not recorded, and events are of that one */
	uint64_t late_nr; /* functions probed when the process may have called them already */
	struct seen_object *seen; /* each once */
	size_t seen_nr, seen_alloc;
	size_t judged_nr; /* of these, those whose late functions are in late_nr */
	uint64_t children_dropped_nr; /* that could not be followed: no memory */
	uint64_t snapshots_lost; /* that could not be written */
	uint64_t leaderless_nr; /* refreshes that found threads, but not the main one */

	struct mappings mappings;
	uint64_t mapped_ns; /* when mappings were read, or begun: events of before are in them */
	uint64_t execed_ns; /* its last exec that an event told of */
	bool is_exe_due;    /* the next file mapped is the program */
	uint64_t missed_at_start; /* events of mappings, dropped by the kernel */
	struct probes own_probes;
	struct probes *probes; /* own_probes, or those of everybody */
	struct pausing own_pausing;
	struct share share; /* where the probes are everybody's */
	struct pausing *pausing; /* likewise */
	uint64_t frames_unmapped;
	uint64_t changed_nr; /* mappings.changed_nr that has been seen to */
	struct pace pace;
	uint64_t copied_nr;   /* probed functions whose code it has replaced by a copy (copied.h) */

	struct code_place *place;
	size_t place_nr, place_alloc;
	struct known_traceback *traceback;
	size_t traceback_nr, traceback_alloc;
	struct idmap traceback_ids;
	struct churn others; /* of tracebacks that have been forgotten (forget.h) */
	uint64_t summed_nr;  /* how many these were; one that came again is counted again */
};

/*
 * Opens the process that a PID or a TID belongs to. NULL and errno, with a line in *why: ESRCH
 * no such process, ENOTSUP a kernel thread, EPERM…
 */
struct target *target__open(pid_t id, struct objects *objects, struct reason *why);

/*
 * A process that began with a fork or an exec, by its books; it may be over already. Maps at first what its
 * parent does (NULL: that is not known). began_ns is the time of the event from which on events of the pid
 * are of its program. NULL and errno ENOMEM.
 */
struct target *target__adopt(pid_t pid, const struct process *books, uint64_t began_ns,
			     const struct target *parent, struct objects *objects);

/* Reads again what may change: mappings, RSS. Harmless once it has ended. */
int target__refresh(struct target *target, struct reason *why);

/* Reads again what it is called. 0 or -ENOMEM. */
int target__read_identity(struct target *target);

/* Whether what was then of its pid is its own. */
bool target__was_there(const struct target *target, uint64_t time_ns);

/* Takes in what the kernel has told of its mappings. 0 or -ENOMEM. */
int target__take_event(struct target *target, const struct mapping_event *event);

/* Events that are not taken one by one, as they were too many: the maps will be read instead. */
void target__skip_events(struct target *target, const struct mapping_event *event);

/* After its traces have been cleared: tracebacks are not known any more. */
void target__forget_traces(struct target *target);

/*
 * After an exec that the books have: nothing of the old image is known any more; the probes stay.
 * 0 or -ENOMEM.
 */
int target__forget_image(struct target *target);

/* How exactly /proc/PID/stat says when a process began. */
uint64_t target__tick_ns(void);

/* Whether it has ended. */
bool target__is_over(const struct target *target);

/* For a process without a pidfd, now and then: looks whether its PID is still its own. */
void target__look_for(struct target *target);

/*
 * The images that live, sorted: two of each process, what was drained of it and what its books are of now. An
 * image that was given out just before next_image was read may be in the books later than they were drained;
 * behind the grace period of the cut, books that are read again have it.
 */
void targets_images(struct target *const *target, size_t nr, uint64_t *ret_image);

/* NULL is allowed; probes must have been closed. */
void target__free(struct target *target);

#endif
