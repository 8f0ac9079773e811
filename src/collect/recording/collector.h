/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_COLLECTOR_H
#define ALLOCSNAP_COLLECT_RECORDING_COLLECTOR_H

/*
 * A collector: what the rooms of a recording share. files/ watches files, sources/ places probes, limits/ keeps the cost
 * to a budget, session/ brings them together: it opens, begins with a process, handles events, makes a pass, saves.
 *
 * Most functions take the parts that they need, and not the whole collector.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "collect.h"
#include "collect/bpf.h"
#include "collect/build/build_snapshot.h"
#include "collect/drain/epoch_cut.h"
#include "collect/drain/map_reader.h"
#include "collect/drain/nursery.h"
#include "collect/probe/detach.h"
#include "collect/probe/late_programs.h"
#include "collect/probe/link_holder.h"
#include "process/mapping_events.h"
#include "process/objects.h"
#include "collect/target/accounts.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"

struct ring_buffer;

/* All recorded processes, by their PID and by the slot of their accounting. */

/* A process that began in the kernel and has no target yet. */
struct new_child {
	uint64_t forked_ns;
	uint64_t admitted_ns; /* if an exec admitted it; otherwise 0 */
	uint64_t began_ns;    /* when the program that was admitted began; otherwise forked_ns */
	uint32_t slot;
	pid_t pid;
};

struct targets {
	struct target **target;
	size_t target_nr, target_alloc;
	struct accounts accounts;
	struct target *by_slot[PROCESSES_MAX];
	struct target **by_pid; /* open addressing; by_pid_nr is a power of two, or 0 */
	size_t by_pid_nr;
	uint64_t codes_left; /* code objects in the kernel of Pythons that are gone */
	struct new_child *new_child; /* PROCESSES_MAX entries, for temporary use */
};

/* 0 or a negative errno. Releasing closes the accounting; the targets must have been taken out. */
int targets_open(struct targets *targets, const struct allocsnap_bpf *bpf);
void targets_release(struct targets *targets);

/* A process's accounting as it is now: the kernel writes it. */
const struct process *account_of(const struct targets *targets, uint32_t slot);

/* NULL: not traced. */
struct target *find_target(const struct targets *targets, pid_t pid);

/* Takes ownership of a target that has a slot if it returns 0; otherwise -ENOMEM. */
int targets_add(struct targets *targets, struct target *target);

/* Gives the ownership of target i back. */
struct target *targets_take_out(struct targets *targets, size_t i);

/* How many running processes have probes of their own beside shared ones. */
unsigned int targets_beside_nr(const struct targets *targets);

/* Closes a target that is not in target[], with its accounting and its own probes. */
void targets_close(struct targets *targets, struct target *target);

/* The data that a pass over the accounting has read, and that it needs from the pass before. */

struct pass {
	uint64_t nr; /* drains so far */
	struct cut cut;
	struct drain drain;
	struct snapshot_context snapshot_context;
	struct free_filter free_filter;
	struct nursery nursery;
	struct {
		uint64_t *id;
		size_t id_nr, id_alloc;
	} stale; /* tracebacks of the last drain whose images are gone */
	uint64_t swept_state; /* of images and processes, when the notes of dropped blocks were last swept */
};

/* Lines for the user that the caller has not read yet: see collector__next_note(). */

/* Zeroed: none. */
struct notes {
	char **note;
	size_t note_nr, note_alloc;
	bool lacks_some;
};

/* Formats a line, as reason_set() does. Without memory for it the line is lost, and a later one says so. */
__attribute__((format(printf, 2, 3)))
void notes_add(struct notes *notes, const char *fmt, ...);

/* Takes the oldest line out, which the caller frees; NULL: no line is left. */
char *notes_take(struct notes *notes);

void notes_release(struct notes *notes);

/* Processes of our own that do what this one must not do, or what may hang. */

struct helpers {
	struct sandbox *sandbox; /* reads ELF and DWARF without our privileges */
	struct link_holder *link_holder; /* NULL: the probes are perf events, which this process holds itself */
	struct file_opener *opener; /* opens files of file systems that may hang */
	bool has_lost_helper; /* a helper has ended: the link holder (and the probes with it), the sandbox, or the opener */
};

/* Forks. ejects: see link_holder__open(). 0 or a negative errno with a line in *why: what was started is the caller's to end. */
int helpers_open(struct helpers *helpers, bool ejects, struct reason *why);

/* 0, or -EPIPE with a line in *why: one without which no process can be recorded has ended. */
int helpers_check(const struct helpers *helpers, struct reason *why);

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

/* Totals of processes that are gone or were never recorded. */
struct totals {
	struct gone gone;
	uint64_t not_admitted_nr, ever_refused_nr; /* at the last look; sum of the increases from look to look */
	uint64_t small_nr;    /* in system-wide mode: processes that ended too small to report */
	uint64_t unprobed_nr; /* processes that ended before their mappings could be read */
};

struct collector {
	struct collector_options options; /* as decided: follow_forks is also set in system-wide mode */
	struct rlimit files_before; /* RLIMIT_NOFILE before it was raised: programs that we start get it */
	struct allocsnap_bpf *bpf;
	struct late_programs late;
	struct helpers helpers;
	struct notes notes;
	struct symbols *symbols;
	struct objects objects;
	struct unwind_tables unwind_tables;
	struct shared_probes shared;
	struct event_sources events;
	struct looks looks;
	struct targets targets;
	struct pass pass;
	struct totals totals;

	/* The state of the rooms above, which only they know. */
	struct file_state *files;
	struct source_state *sources;
	struct limit_state *limits;
};

/* Whether processes have links of their own that count, so that each pauses alone (limits/own_links.h). */
bool links_are_own(const struct collector *collector);

/* Forgets all blocks of a process while it runs. 0 or a negative errno; -ESRCH: a process has ended. */

int clear_targets(struct allocsnap_bpf *bpf, struct accounts *accounts, struct grace *grace, struct target *const *target,
		  size_t nr);
int clear_target_traces(struct collector *collector, struct target *target);

/* Runs a program for the process with that slot. What it returns, or a negative errno. */
int run_request_program(const struct bpf_program *program, uint32_t slot);

#endif
