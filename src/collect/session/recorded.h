/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDED_H
#define ALLOCSNAP_COLLECT_RECORDED_H

/*
 * The inside of a collector. start.c begins the recording of a process, recorded.c handles its events, drained.c
 * makes snapshots, traced.c answers questions about one process.
 */

#include <sys/resource.h>
#include <time.h>

#include "collect.h"
#include "collect/build/assemble.h"
#include "collect/target/books.h"
#include "collect/bpf.h"
#include "collect/budget/calibrate.h"
#include "collect/drain/cut.h"
#include "collect/probe/detach.h"
#include "collect/drain/drain.h"
#include "collect/probe/file_watch.h"
#include "collect/session/health.h"
#include "collect/probe/keeper.h"
#include "collect/process/mapping_events.h"
#include "collect/drain/nursery.h"
#include "collect/process/objects.h"
#include "collect/drain/pairing.h"
#include "collect/session/pause.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"
#include "elf/custom_allocators.h"

struct parser;
struct ring_buffer;
struct symbols;

struct collector {
	struct allocsnap_bpf *bpf;
	struct parser *parser; /* reads ELF and DWARF without our privileges */
	struct symbols *symbols;
	struct custom_allocators custom;
	struct objects objects;
	struct unwind_tables unwind_tables;
	struct trap_costs costs;
	struct keeper *keeper; /* NULL: the probes are perf events, which this process holds itself */
	bool is_blind; /* a helper has ended: the keeper (and the probes with it), the parser, or the opener */
	struct detacher detacher; /* of probes that are no longer needed */
	uint32_t max_overhead; /* percent; 0: no budget */
	uint64_t pause_every_ns; /* 0: the budget decides; otherwise for tests (docs/testing.md) */
	int budget_fd;	       /* a timer for the next look at budgets */
	struct pausing everybody_pausing;
	struct share together;	    /* of all processes in sum */
	uint32_t share_named_nr;    /* notes that named a process for which the others waited */
	uint64_t budgets_judged_ns; /* in system-wide mode: when the budgets were judged */
	struct probes everybody; /* the shared probes, if children are followed */
	struct file_watch watch; /* on probed files, if there is no keeper */
	uint64_t pass_nr;	 /* drains so far */
	char **program; /* paths of programs that are probed before they run (beforehand.h) */
	size_t program_nr, program_alloc;
	uint64_t changed_nr;	 /* the objects.changed_nr that has been handled */
	uint64_t put_off_ns;	 /* when objects that are put off were last tried */
	size_t put_off_at;	 /* the next object to try */
	size_t put_off_told_nr;
	struct mapping_events *events;
	struct ring_buffer *doorbell;
	int event_fd; /* epoll: doorbell, events, pidfds, budget_fd */
	bool follow_forks; /* also set in system-wide mode */
	bool no_names;
	bool no_return_probes;
	bool has_return_calls; /* a return probe is a system call of the process */
	bool everyone;
	uint64_t min_bytes; /* in system-wide mode */
	uint64_t not_admitted_nr, ever_refused_nr; /* at the last look; sum of the increases from look to look */
	uint32_t traceback_limit;
	struct rlimit files_before; /* RLIMIT_NOFILE before it was raised: programs that we start get it */
	struct target **target;
	size_t target_nr, target_alloc;
	char **note; /* not read by the caller yet */
	size_t note_nr, note_alloc;

	uint64_t refreshed_ns;	    /* when all processes were looked at */
	uint64_t look_nr;
	bool (*between)(void *what); /* see collector__set_between() */
	void *between_what;
	uint64_t searched_ns;	    /* when processes without a pidfd were checked */
	struct books books;
	struct target *by_slot[PROCESSES_MAX];
	struct target **by_pid; /* open addressing; by_pid_nr is a power of two, or 0. An idmap removes no rows */
	size_t by_pid_nr;
	struct new_child *new_child; /* PROCESSES_MAX entries, for temporary use */
	struct {
		uint64_t *id;
		size_t id_nr, id_alloc;
	} stale; /* tracebacks of the last drain whose images are gone */
	double tracebacks_an_image;   /* that an ended image leaves, by the last drain */
	uint64_t small_nr; /* in system-wide mode: processes that ended too small to report */
	uint64_t unprobed_nr; /* processes that ended before their mappings could be read */
	struct cut cut;
	struct drain drain;
	struct occasion occasion;
	struct pairing pairing;
	struct nursery nursery;
	struct gone gone;
	uint64_t oom_kill_cnt; /* OOM kills that have been handled */
	uint64_t swept_state; /* of images and processes, when the notes of dropped blocks were last swept */
};

/* A process that began in the kernel and has no target yet. */
struct new_child {
	uint64_t forked_ns;
	uint64_t admitted_ns; /* if an exec admitted it; otherwise 0 */
	uint64_t began_ns;    /* when the program that was admitted began; otherwise forked_ns */
	uint32_t slot;
	pid_t pid;
};

/* A process's accounting as it is now: the kernel writes it. */
const struct process *books_of(const struct collector *collector, uint32_t slot);

/* NULL: not traced. */
struct target *find_target(const struct collector *collector, pid_t pid);

/* Reads the accounting as it is now, or as it was last read if the slot is empty. */
void read_traced_memory(const struct collector *collector, const struct target *target,
			struct traced_memory *ret);

/* Takes ownership of an open target if it returns 0. */
int add_target(struct collector *collector, struct target *target);

/* Closes a target that is not in target[], with its accounting and its own probes. */
void close_target(struct collector *collector, struct target *target);

/* Removes target i, and its own probes. */
void remove_target(struct collector *collector, size_t i);

/* See collector__next_note(). */
void add_note(struct collector *collector, const char *what);

/* Updates the cost of recording a process from its accounting. */
void read_cost(const struct collector *collector, struct target *target, const struct process *books);

/* Probes the allocators in an object, unless it was looked at already. 0 or a negative errno, as probes_attach(). */
int probe_object(struct collector *collector, struct probes *probes, uint32_t object, struct reason *why);

/* Probes the allocators in objects of a target that have not been looked at yet. 0 or a negative errno. */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why);

/*
 * Does the same at the start of a recording. -ENOENT with a line in *why if no function that gives out blocks was
 * found. If target->probes are a trial's, nothing is attached.
 */
int find_probes(struct collector *collector, struct target *target, struct reason *why);

/* Looks at all processes, at their mappings and identities, whatever has happened. */
void refresh_all(struct collector *collector);

/* Called after a drain, when all its tracebacks have been resolved. */
void end_drain(struct collector *collector);

/* Handles events and accounting only: then children and execs are known, but not the mappings of new images. */
void take_news(struct collector *collector, bool whole);

/* "cannot …: process PID is not traced", in tracemalloc's words. */
int say_not_tracing(pid_t pid, struct reason *why);

#endif
