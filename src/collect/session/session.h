/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_SESSION_H
#define ALLOCSNAP_COLLECT_SESSION_SESSION_H

/*
 * The inside of a collector. start.c begins the recording of a process, session.c handles its events, snapshot_pass.c
 * makes snapshots, tracemalloc_api.c answers questions about one process.
 *
 * Most functions take the parts that they need, and not the whole collector.
 */

#include <sys/resource.h>
#include <time.h>

#include "collect.h"
#include "collect/bpf.h"
#include "collect/probe/detach.h"
#include "collect/probe/late_programs.h"
#include "collect/process/mapping_events.h"
#include "collect/process/objects.h"
#include "collect/session/early_probes.h"
#include "collect/session/stale.h"
#include "collect/session/helpers.h"
#include "collect/session/injection.h"
#include "collect/session/notes.h"
#include "collect/session/own_links.h"
#include "collect/session/pass.h"
#include "collect/session/python_choice.h"
#include "collect/session/budget_pause.h"
#include "collect/session/budget_target.h"
#include "collect/session/targets.h"
#include "collect/session/written_files.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"
#include "elf/user_allocators.h"

struct ring_buffer;
struct symbols;

/* The probes that all recorded processes share, if children are followed; and what is true of all probes. */
struct shared_probes {
	struct probes probes;
	struct detacher detacher; /* of probes that are no longer needed */
	bool has_return_calls;	  /* a return probe is a system call of the process */
};

/* The sources of events. */
struct event_sources {
	struct mapping_events *mappings;
	struct ring_buffer *doorbell;
	int fd; /* epoll: doorbell, mappings, pidfds, the timer of the budgets */
	uint64_t oom_kill_cnt; /* OOM kills that have been handled */
};

/* When what was looked at. */
struct looks {
	uint64_t nr;
	uint64_t refreshed_ns;	     /* when all processes were looked at */
	uint64_t searched_ns;	     /* when processes without a pidfd were checked */
	bool (*between)(void *what); /* see collector__set_between() */
	void *between_what;
};

struct collector {
	struct collector_options options; /* as decided: follow_forks is also set in system-wide mode */
	struct rlimit files_before; /* RLIMIT_NOFILE before it was raised: programs that we start get it */
	struct allocsnap_bpf *bpf;
	struct late_programs late;
	struct helpers helpers;
	struct notes notes;
	struct injections injections;
	struct python_choice python_choice;
	struct symbols *symbols;
	struct user_allocators custom;
	struct objects objects;
	struct unwind_tables unwind_tables;
	struct shared_probes shared;
	struct early_programs early;
	struct written_files written;
	struct budgets budgets;
	struct own_links own_links;
	struct event_sources events;
	struct looks looks;
	struct targets targets;
	struct pass pass;
	struct totals totals;
};

/* A collector that has nothing yet; options NULL: none. NULL: no memory. */
struct collector *collector_new(const struct collector_options *options);

/* Reads the accounting as it is now, or as it was last read if the slot is empty. */
void read_traced_memory(const struct books *books, const struct target *target, struct traced_memory *ret);

/* Takes ownership of an open target if it returns 0. */
int add_target(struct collector *collector, struct target *target);

/* Removes target i, and its own probes. */
void remove_target(struct collector *collector, size_t i);

/* Updates the cost of recording a process from its accounting. */
void target_read_cost(const struct trap_costs *costs, struct target *target, const struct process *books);

/*
 * Probes the allocators in an object, unless it was looked at already. with_heap and the result are those of
 * probes_attach().
 */
int probe_object(struct collector *collector, struct probes *probes, uint32_t object, bool with_heap,
		 struct reason *why);

/* Probes the allocators in objects of a target that have not been looked at yet. 0 or a negative errno. */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why);

/*
 * Does the same at the start of a recording. -ENOENT with a line in *why if no function that gives out blocks was
 * found. If target->probes.used are a trial's, nothing is attached.
 */
int find_probes(struct collector *collector, struct target *target, struct reason *why);

/* Looks at all processes, at their mappings and identities, whatever has happened. */
void collector_refresh_all(struct collector *collector);

/* Called after a drain, when all its tracebacks have been resolved. */
void end_drain(struct targets *targets);

/* Handles events and accounting only: then children and execs are known, but not the mappings of new images. */
void collector_read_news(struct collector *collector, bool whole);

/* collector__clear_traces() of a target. */
int clear_target_traces(struct collector *collector, struct target *target);

/* "cannot …: process PID is not traced", in tracemalloc's words. */
int log_not_tracing(pid_t pid, struct reason *why);

#endif
