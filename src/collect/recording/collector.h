/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_COLLECTOR_H
#define ALLOCSNAP_COLLECT_RECORDING_COLLECTOR_H

/*
 * A collector: what the rooms of a recording share. files/ watches files, sources/ places probes, limits/ keeps the cost
 * to a budget, session/ brings them together: it opens, begins with a process, handles events, makes a pass, saves.
 *
 * Most functions take the parts that they need, and not the whole collector.
 */

#include <sys/resource.h>

#include "collect.h"
#include "collect/bpf.h"
#include "collect/probe/detach.h"
#include "collect/probe/late_programs.h"
#include "collect/process/mapping_events.h"
#include "collect/process/objects.h"
#include "collect/recording/helpers.h"
#include "collect/recording/notes.h"
#include "collect/recording/pass.h"
#include "collect/recording/targets.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"

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

#endif
