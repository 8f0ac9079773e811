/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LIMITS_OWN_LINKS_H
#define ALLOCSNAP_COLLECT_LIMITS_OWN_LINKS_H

/*
 * Recordings by rules share their probes, and a shared probe cannot be taken from one process alone. So when one
 * process has spent its budget, all recorded processes get links of their own, and the shared ones go: then only the
 * one that spends pauses. When no budget was spent for some seconds (struct calm), the shared links come back:
 * they see new processes from their first call on.
 *
 * The number links_state of the kernel side is all there is to know (shared/links_state.h):
 *
 *	LINKS_SHARED ── a budget is spent: own links are placed ──────► LINKS_TO_OWN
 *	     ▲                                                               │
 *	     └ some ms later: own ones go                                    └ some ms later: shared ones go
 *	                  │                                                               ▼
 *	           LINKS_TO_SHARED ◄── calm: shared ones are placed again ──────────── LINKS_OWN
 *
 * While links of both kinds are at a probe, each event counts once (bpf/account/thread.bpf.h). The older links stay for
 * some ms, so that calls that began at them can return.
 *
 * A process that comes in LINKS_TO_OWN or LINKS_OWN has a gap until it has links of its own.
 *
 * The kernel walks over the links of all processes at each hit of a probe, so this is for LINKS_MOST processes at most,
 * and not while processes come and go quickly. Otherwise the recording pauses for all. Perf uprobes (kernels before
 * 6.6) take too long to come and go; with them it always pauses for all.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/limits/budget_pause.h"
#include "collect/recording/collector.h"

/*
 * For how long no look at the budgets has found one that is spent. Time in which the recorder could not look is no
 * calm: of the time between two looks a second counts at most.
 */

struct calm {
	uint64_t looked_ns; /* when the budgets were looked at last */
	uint64_t ns;	    /* what counts since a budget was spent */
};

/* A budget is spent now. */
void calm_end(struct calm *calm, uint64_t now_ns);

/* Counts a look. Returns whether it has been calm for so long that the budgets will probably hold. */
bool calm_look(struct calm *calm, uint64_t now_ns, bool is_any_spent);

#define NEWCOMERS_SEEN 16

struct own_links {
	uint64_t due_ns;       /* LINKS_TO_OWN, LINKS_TO_SHARED: when the older links go */
	uint64_t alone_ns;     /* since when the shared links have counted nothing */
	uint64_t returned_ns;  /* since when they have counted again */
	struct calm calm;      /* since the shared links went */
	uint64_t retry_ns;     /* when going back is tried again after a failure */
	uint64_t change_every_ns; /* for tests: changes as often as this */
	uint64_t newcomer_ns[NEWCOMERS_SEEN]; /* when the latest processes came, in a ring */
	uint64_t newcomer_nr;
	bool is_noted;
};

/*
 * Called when a budget is spent. Returns whether there is no need to pause all processes: they have links of their own
 * from now on, or (LINKS_TO_SHARED) from the first look on that comes some ms later.
 */
bool links_become_own(struct collector *collector);

/* Does what is due: removes older links, returns to the shared ones. */
void own_links_step(struct collector *collector);

/* How long to wait before the next step; UINT64_MAX: no step is due. */
uint64_t own_links_wait_ns(const struct collector *collector);

/* Counts the links that a hit of a probe may have to pass: each process that has links of its own has one. */
void count_other_links(struct collector *collector);

/* Returns what passing them has cost a process, by the number of links that there were when it was asked before. */
uint64_t cost_of_walks(const struct trap_costs *costs, const struct process *account, struct link_walks *walks);

/* Chooses the probes of a process whose recording begins now. It has its slot if it is a newcomer. */
void own_links_choose(struct collector *collector, struct target *target);

/* The same for a newcomer, and begins its gap if the shared links have not seen it, or not to the end. */
void own_links_adopt(struct collector *collector, struct target *target);

/* Begins to remove the own probes of a process that has ended. */
void own_links_end(struct collector *collector, struct target *target);

/* Before the own probes of a process are placed after a pause: a newcomer has none yet. 0 or -ENOMEM. */
int own_links_complete(struct collector *collector, struct target *target);

struct limit_state {
	struct budgets budgets;
	struct own_links own_links;
};

#endif
