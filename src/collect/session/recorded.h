/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDED_H
#define ALLOCSNAP_COLLECT_RECORDED_H

/*
 * A collector from inside: start.c begins the recording of a process, recorded.c looks at it
 * meanwhile, drained.c makes snapshots, traced.c answers for one process.
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
	struct parser *parser; /* reads ELF and DWARF, without our privileges */
	struct symbols *symbols;
	struct custom_allocators custom;
	struct objects objects;
	struct unwind_tables unwind_tables;
	struct trap_costs costs;
	struct keeper *keeper; /* NULL: probes are perf events, which we have ourselves */
	bool is_blind; /* the keeper has ended, and the probes with it; or the parser */
	struct detacher detacher; /* of probes that are no longer needed */
	uint32_t max_overhead; /* percent; 0: no budget */
	uint64_t pause_every_ns; /* 0: as the budget says; else for tests (docs/design.md) */
	int budget_fd;	       /* a timer: time to look at budgets */
	struct pausing everybody_pausing;
	struct share together;	    /* what all processes cost */
	uint32_t share_named_nr;    /* processes that the others have waited for, and a note says so */
	uint64_t budgets_judged_ns; /* of everyone: when they were */
	struct probes everybody; /* where children are followed */
	struct file_watch watch; /* where there is no keeper: on probed files */
	uint64_t pass_nr;	 /* drains so far */
	char **program; /* paths of programs that are probed before they run (beforehand.h) */
	size_t program_nr, program_alloc;
	uint64_t changed_nr;	 /* objects.changed_nr that has been seen to */
	uint64_t put_off_ns;	 /* when objects that are put off were tried last */
	size_t put_off_at;	 /* where that goes on */
	size_t put_off_told_nr;
	struct mapping_events *events;
	struct ring_buffer *doorbell;
	int event_fd; /* epoll: doorbell, events, pidfds, budget_fd */
	bool follow_forks; /* also where everyone is recorded */
	bool no_names;
	bool no_return_probes;
	bool has_return_calls; /* a return probe is a system call of the process */
	bool everyone;
	uint64_t min_bytes; /* of everyone */
	uint64_t not_admitted_nr, ever_refused_nr; /* at the last look; what it grew by from look to look */
	uint32_t traceback_limit;
	struct rlimit files_before; /* RLIMIT_NOFILE before we raised it: what we start gets it */
	struct target **target;
	size_t target_nr, target_alloc;
	char **note; /* not taken yet */
	size_t note_nr, note_alloc;

	uint64_t refreshed_ns;	    /* when all were looked at */
	uint64_t look_nr;
	bool (*between)(void *what); /* see collector__set_between() */
	void *between_what;
	uint64_t searched_ns;	    /* when those without a pidfd were looked for */
	struct books books;
	struct target *by_slot[PROCESSES_MAX];
	struct target **by_pid; /* open addressing; by_pid_nr is a power of two, or 0 */
	size_t by_pid_nr;
	struct new_child *new_child; /* PROCESSES_MAX: scratch */
	struct {
		uint64_t *id;
		size_t id_nr, id_alloc;
	} stale; /* tracebacks in the last drain, of images that are gone */
	double tracebacks_an_image;   /* that images leave, as of late */
	uint64_t small_nr; /* of everyone: that ended with too little to be told of */
	uint64_t unprobed_nr; /* that ended before what they mapped could be looked at */
	struct cut cut;
	struct drain drain;
	struct occasion occasion;
	struct pairing pairing;
	struct nursery nursery;
	struct gone gone;
	uint64_t oom_kill_cnt; /* that have been seen to */
	uint64_t swept_state; /* of images and processes, when notes of dropped blocks were swept */
};

/* A process that began in the kernel, and is not known yet. */
struct new_child {
	uint64_t forked_ns;
	uint64_t admitted_ns; /* by its exec; else 0 */
	uint64_t began_ns;    /* the program that it was admitted as; else forked_ns */
	uint32_t slot;
	pid_t pid;
};

uint64_t collector_now_ns(clockid_t clock);

/* A process's books as they are now: the kernel writes them. */
const struct process *books_of(const struct collector *collector, uint32_t slot);

/* NULL: not traced. */
struct target *find_target(const struct collector *collector, pid_t pid);

/* Of the books as they are now, or as last seen. */
void read_traced_memory(const struct collector *collector, const struct target *target,
			struct traced_memory *ret);

/* Takes a target that is open in; the collector's from now on, where 0 is returned. */
int add_target(struct collector *collector, struct target *target);

/* One that is not among target[]: its books and its own probes go. */
void close_target(struct collector *collector, struct target *target);

/* Forgets it; its probes are taken away. */
void remove_target(struct collector *collector, size_t i);

/* See collector__next_note(). */
void add_note(struct collector *collector, const char *what);

/* What recording it has cost, as of its books as they were read last. */
void read_cost(const struct collector *collector, struct target *target, const struct process *books);

/* Probes what an object has of allocators, if it was not looked at yet. 0 or a negative errno, as probes_attach(). */
int probe_object(struct collector *collector, struct probes *probes, uint32_t object, struct reason *why);

/* Looks for allocators in the objects that have not been looked at yet. 0 or a negative errno. */
int probe_new_objects(struct collector *collector, struct target *target, struct reason *why);

/*
 * That, and -ENOENT with a line where nothing that gives out blocks was found: what a recording begins
 * with. Where target->probes are a trial's, nothing is attached.
 */
int find_probes(struct collector *collector, struct target *target, struct reason *why);

/* Looks at all processes, at what they map and at what they are, whatever has happened. */
void refresh_all(struct collector *collector);

/* After a drain, when all that it has read has been resolved. */
void end_drain(struct collector *collector);

/* Events and books only: children and execs are known, but not what the new images map. */
void take_news(struct collector *collector, bool whole);

/* "cannot …: process PID is not traced", tracemalloc's sentence. */
int say_not_tracing(pid_t pid, struct reason *why);

#endif
