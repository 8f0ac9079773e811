/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_COST_WATCH_H
#define ALLOCSNAP_COLLECT_BUDGET_COST_WATCH_H

/*
 * Notices that recording a process costs it much, within a second. This is arithmetic only: the caller reads the clocks.
 *
 * Recording costs much if in half a second or more it took more than half of the CPU time that the process used itself. That
 * time counts as a tenth of a core at least, as for a budget (budget.h): what a process costs that is nearly idle is no matter.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/reason.h"
#include "collect/budget/calibrate.h"

#define COST_WATCH_NS 500000000ULL /* the shortest time that is judged */
#define COST_IDLE_PARTS 10	   /* of a core: what a process uses at least */
#define COST_TRAPS_LEAST 2048	   /* the time of their programs is estimated from one in 64 (bpf/account/cost.bpf.h) */

/* The time and the cost of a recording up to a moment, or in a part of it. */
struct cost_look {
	uint64_t now_ns; /* or how long it was */
	uint64_t trap_nr;
	struct cost_sum sum;
};

/* Zeroed: the recording has just begun. */
struct cost_watch {
	struct cost_look since; /* when the part began that will be judged next */
	bool is_without_cpu;	/* since.sum.cpu_ns was not read then */
};

/*
 * Whether cost_watch_judge() shall have the process's clocks now. Otherwise it is too early, or the cost alone shows that it is not
 * much: then the next part has begun. started_ns: when the recording began. now: without cpu_ns.
 */
bool cost_watch_wants(struct cost_watch *watch, uint64_t started_ns, const struct cost_look *now);

/* Returns whether recording has cost much in the part that ends now; *ret_part: the part, if so. The next part has begun. */
bool cost_watch_judge(struct cost_watch *watch, const struct cost_look *now, struct cost_look *ret_part);

/* How long until the first part can be judged; UINT64_MAX: it has been. */
uint64_t cost_watch_wait_ns(const struct cost_watch *watch, uint64_t started_ns, uint64_t now_ns);

/* "about 3.1 times slower (traps took about 340 ms of 500 ms of its CPU time)". Says no more than was measured. */
void cost_watch_format(struct reason *ret, const struct cost_look *part);

#endif
