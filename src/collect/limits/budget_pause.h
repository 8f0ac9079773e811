/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_LIMITS_BUDGET_PAUSE_H
#define ALLOCSNAP_COLLECT_LIMITS_BUDGET_PAUSE_H

/*
 * Recordings that sample or pause to stay within a budget, and the resulting gaps. Each process has a budget. Pauses
 * belong to a set of probes: the probes of one process, or the shared ones if children are followed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/budget.h"
#include "collect/budget/calibrate.h"

struct collector;
struct target;

/*
 * No counter has the traps at breakpoints that are being placed or removed. On a busy machine they exist for a
 * while.
 */
#define GAP_COST_NS 1000000

struct budgets {
	struct trap_costs costs;
	struct cpu_quotas quotas;
	uint64_t pause_every_ns; /* 0: the budget decides; otherwise for tests (docs/testing.md) */
	uint64_t rate_every_ns;	 /* the same for sampling rates: each in turn */
	int timer_fd;		 /* for the next look at budgets */
	struct pausing pausing;	 /* of the shared probes */
	struct budget together;	 /* of all processes in sum, if they share their probes */
	uint32_t named_nr;	 /* notes that named a process */
	uint64_t judged_ns;	 /* in system-wide mode: when the budgets were judged */
};

/* Pauses spenders whose budget is used up, resumes those that have credit again, and sets rates and the timer. */
void apply_budgets(struct collector *collector);

/*
 * For processes with links of their own beside shared ones (own_links.h): begins a gap of one; and ends it when the
 * shared links are placed: budget_mark_return() before they count, budget_open_again() when they do.
 */
void budget_pause_target(struct collector *collector, struct target *target);
void budget_mark_return(struct collector *collector, struct target *target);
void budget_open_again(struct collector *collector, struct target *target);

/* The probes are gone for good: begins a gap of each process, which has no end. */
void budget_lose_probes(struct collector *collector);

/* Before something that takes long: pauses spenders that could spend much meanwhile. */
void pause_spenders(struct collector *collector);

/* Places the shared probes again before a process is looked at for the first time. */
int resume_shared(struct collector *collector);

/* The budget of one process, and the one of all: what it is of, and what was used. */

/* Finds where quotas are, and begins the budget that all processes have together. 0 or -ENOMEM. */
int budgets_begin(struct collector *collector);

/* Begins the budget of a process. */
void target_begin_budget(const struct collector *collector, struct target *target);

/* Updates the cost of recording a process from its accounting. */
void target_read_cost(const struct trap_costs *costs, struct target *target, const struct process *account);

#endif
