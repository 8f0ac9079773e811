/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TARGET_TARGET_H
#define ALLOCSNAP_COLLECT_TARGET_TARGET_H

/*
 * A process that is recorded: its identity, its mappings, the probes in it. The loader keeps this after the
 * process has ended, so that there is a last snapshot with names.
 */

#include "collect/budget/budget.h"
#include "collect/budget/calibrate.h"
#include "collect/budget/cost_watch.h"
#include "collect/budget/interval_control.h"
#include "collect/probe/probes.h"
#include "process/made_code.h"
#include "process/mapping_events.h"
#include "process/mappings.h"
#include "process/proc.h"
#include "process/rss.h"
#include "collect/python/target_python.h"
#include "collect/target/accounts.h"
#include "collect/target/tracebacks.h"
#include "sampler/sampler_info.h"

/* The programs that the process runs one after another, from its first to its end. */
struct target_life {
	uint64_t born_ns;	/* CLOCK_MONOTONIC: earlier events belong to another process or program with this PID */
	uint64_t started_ns;	/* CLOCK_MONOTONIC when it was admitted */
	uint64_t cpu_before_ns; /* CPU time that the process had used when its recording began */
	uint64_t execed_ns;	/* the last exec that an event reported */
	uint64_t exec_cnt, thread_exec_cnt; /* execs in the accounting that have been handled */
	uint64_t exec_event_cnt; /* how many of these execs events reported: the mappings belong to that image */
	bool has_ended;
	bool is_gone;	  /* the PID is free or another process has it, and no pidfd would show it */
	bool has_left_by_exec; /* it has called exec of a program that is not recorded; events belong to that one */
	bool is_exit_handled;  /* its exit has been handled */
};

/* The accounting at one time, and what recording had cost by then. */
struct target_account {
	struct process account;
	struct cost_sum cost;
	bool is_of_source; /* a source of blocks has counted, and no probe */
};

/* The state of a process as its written snapshots show it. */
struct shown {
	uint64_t exec_cnt, clear_cnt; /* of the image and the traces that the numbers belong to */
	uint64_t last_bytes, most_bytes;
};

struct target_snapshots {
	struct shown shown;
	uint64_t assembled_bytes; /* live bytes in the latest snapshot */
	bool any_saved;
	bool is_unsaved;  /* since the last drain */
	bool is_final;	  /* the process had ended before the last drain */
	bool is_near_oom; /* since the last snapshot */
	bool is_mixed;	  /* in the latest, some blocks of the heap have a weight that the process gave, others none */
};

struct target_resident {
	uint64_t bytes;
	uint64_t at_start_bytes; /* since the recording saw everything: memory that is older is at most this */
	struct rss by_kind; /* at the last drain at which the process ran */
};

/* The age of the mappings. */
struct maps_reading {
	uint64_t mapped_ns; /* when the mappings were read, or began: earlier events are included in them */
	uint64_t replaced_nr; /* the mappings.replaced_nr that has been handled */
	struct pace pace;
	bool is_touched; /* the process's mappings or its identity may have changed */
	bool is_exe_due; /* the next file that is mapped is the program */
};

struct target_probes {
	struct probes own;
	struct probes *used; /* own, or the shared ones (collector->shared.probes) */
	struct probes beside; /* where probes are shared: the probes of this process alone, such as at its CPython */
	bool hide_heap;	      /* a source reports its heap instead of the probes of the heap, or nothing does */
};

struct target_budget {
	struct pausing own;	      /* of the process's own probes */
	const struct pausing *shared; /* of the shared ones (collector->budgets.pausing), or NULL */
	struct budget limit;	      /* of this process */
	uint64_t quota_ns;	      /* when the quota of its control group was read */
	struct thinned_time thinned;
	struct cost_watch watch;      /* of its traps, without a budget */
	bool is_thinning_noted, is_pause_noted, is_cost_noted;
};

#define TARGET_SAMPLERS_MAX 8

/* The sampler in the process that reports the blocks of its heap. */
struct target_sampler {
	bool is_used;
	bool has_info;
	bool is_injected;    /* by this recording or another one */
	bool is_hidden;	     /* an injected one that is not used takes the heap's calls: a note says so */
	uint64_t judged_ns; /* when was last looked whether the heap is seen */
	bool is_heap_left_out; /* it was injected and has gone: the heap has no probes instead */
	uint64_t stopped_ns; /* how long this recording stopped the threads to inject it */
	char *functions;     /* that it has taken over; NULL: not known, as another recording has injected it */
	uint32_t object[TARGET_SAMPLERS_MAX]; /* indexes of its files: an injected one has one for each allocator */
	size_t object_nr;
	struct sampler_info info; /* what it said about itself last; of several files the sum */
	int memory_fd;		  /* its memory, if its interval may be written there; -1 */
	uint64_t looked_ns;	  /* when its interval was last looked at */
	struct interval_control interval;
	uint64_t changes_before, own_changes; /* of the interval: before the recording began, and by this recording */
};

/* The books of its heap, which a library in it writes (sources/malloc_books.h). */
struct malloc_books;
struct target_heap_books {
	bool is_used; /* it was started with the library, or has hooks at its allocators */
	struct malloc_books *state; /* the source's; NULL: none yet */
};

/* Which code made its resident memory (sources/page_source.c). */
struct page_state;
struct target_pages {
	struct page_state *state; /* the source's; NULL: pages are not recorded */
	uint64_t judge_ns; /* CLOCK_MONOTONIC when to judge whether nothing else sees it; 0: it was judged */
};

/* Go's heap, of which its runtime keeps a profile (sources/go_source.c). */
struct go_heap;
struct target_go {
	bool is_used;	      /* it has a profile, if no sample so far */
	struct go_heap *heap; /* the source's; NULL: it was not looked at */
};

/* An agent in its Java virtual machine (sources/java_source.c). */
struct java_recording;
struct target_java {
	struct java_recording *state; /* the source's; NULL: it has none */
};

/* Counts of what the loader could not record of a process; the kernel counts its own losses in the accounting. */
struct target_losses {
	uint64_t children_dropped_nr; /* children that could not be followed for lack of memory */
	uint64_t snapshots_lost;      /* snapshots that could not be written */
	uint64_t copied_nr;	      /* probed functions whose code the process has replaced by a copy (copied_functions.h) */
	bool are_children_told;	      /* a note about children in its memory was written */
	uint64_t leaderless_nr;	      /* refreshes that found threads, but no main thread */
	uint64_t missed_at_start;     /* mapping events that the kernel dropped before the recording */
	struct found_losses found;    /* by all snapshots so far */
};

/* The hits of its probes so far, and what the walks over other processes' links took at them. */
struct link_walks {
	uint64_t hits, ns;
};

struct target {
	uint32_t slot; /* of its accounting, or ACCOUNT_NONE */
	struct process_identity identity;
	struct target_life life;
	struct target_account now;     /* when last read */
	struct target_account drained; /* at the last drain */
	struct target_snapshots snapshots;
	struct target_resident resident;
	struct mappings mappings;
	struct made_code made_code;
	struct maps_reading reading;
	struct target_probes probes;
	struct target_sampler sampler;
	struct target_python python;
	struct target_heap_books heap_books;
	struct target_pages pages;
	struct target_go go;
	struct target_java java;
	struct late_functions late;
	struct target_budget budget;
	struct link_walks walks;
	struct tracebacks tracebacks;
	struct target_losses losses;
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
struct target *target__adopt(pid_t pid, const struct process *account, uint64_t began_ns,
			     const struct target *parent, struct objects *objects);

/* Reads mappings and RSS again. Harmless when the process has ended. */
int target__refresh(struct target *target, struct reason *why);

/* Notes the RSS of now as the RSS of the start. Called again once nothing that the process allocates is missed. */
void target__read_start_rss(struct target *target);

/* Reads the name, the program and the arguments again. 0 or -ENOMEM. */
int target__read_identity(struct target *target);

/* Whether the PID belonged to this target at that time. */
bool target__was_there(const struct target *target, uint64_t time_ns);

/* Applies a mapping event from the kernel. 0 or -ENOMEM. */
int target__apply_event(struct target *target, const struct mapping_event *event);

/* Counts events that were too many to apply one by one: /proc/PID/maps will be read instead. */
void target__skip_events(struct target *target, const struct mapping_event *event);

/*
 * Forgets everything about the old image, after an exec that the accounting shows. The probes stay. 0 or
 * -ENOMEM.
 */
int target__forget_image(struct target *target);

/* The resolution of a process's start time in /proc/PID/stat. */
uint64_t target__tick_ns(void);

/* Reads the memory of a struct target. 0 or -EFAULT: not all of it could be read. */
int target__read_memory(void *target, uint64_t address, void *to, size_t bytes);

/* Whether the probes of its own stand beside the shared ones of the heap. */
bool target__is_beside(const struct target *target);

/* Where the probes of this process alone are, or would be. */
struct probes *target__own_probes(struct target *target);

/* Whether the process has ended. */
bool target__is_over(const struct target *target);

/* Whether it has ended, or is about to: it has no memory any more, whatever else there still is of it. */
bool target__is_ending(const struct target *target);

/* For a process without a pidfd, now and then: checks whether it still has its PID. */
void target__check_pid(struct target *target);

/*
 * Writes the live images, sorted, two of each process: the one that was drained and the one in its accounting
 * now. An image that was given out just before next_image was read may appear in the accounting after the drain
 * read it; the accounting that is read again after the cut's grace period has it.
 */
void targets_images(struct target *const *target, size_t nr, uint64_t *ret_image);

/* NULL is allowed. The probes must have been closed. */
void target__free(struct target *target);

/* Sums the gaps of its own probes and of the shared ones since its recording began, which do not overlap. */
struct gaps_sum target__gaps(const struct target *target, uint64_t now_ns);

#endif
