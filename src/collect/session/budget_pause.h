/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_BUDGET_PAUSE_H
#define ALLOCSNAP_COLLECT_SESSION_BUDGET_PAUSE_H

/*
 * Recordings that pause to stay within a budget, and the resulting gaps. A budget belongs to a set of probes: to
 * those of one process, or to the shared ones if children are followed. The cost of all processes together and
 * the cost of each process decide about a pause of the shared probes (budget_shared.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "collect/budget/calibrate.h"
#include "collect/budget/pause_gaps.h"
#include "collect/budget/budget_share.h"

struct allocsnap_bpf;
struct collector;
struct collector_options;

struct budgets {
	struct trap_costs costs;
	uint64_t pause_every_ns; /* 0: the budget decides; otherwise for tests (docs/testing.md) */
	int timer_fd;		 /* for the next look at budgets */
	struct pausing pausing;	 /* of the shared probes */
	struct share together;	 /* of all processes in sum */
	uint32_t named_nr;	 /* notes that named a process for which the others waited */
	uint64_t judged_ns;	 /* in system-wide mode: when the budgets were judged */
};

/* Gives *pausing the budget that was chosen, unless it has one. */
void pausing_begin(const struct collector_options *options, const struct allocsnap_bpf *bpf, struct pausing *pausing);

/* Pauses spenders that have used up their budget, resumes those that have earned enough, and sets the timer. */
void apply_budgets(struct collector *collector);

/*
 * Notices, once and with a note, that a helper process has ended. If it is the keeper, the probes are gone, too,
 * and each process gets a gap that has no end. The other helpers read and open files.
 */
void notice_blindness(struct collector *collector);

/* Before something that takes long: pauses spenders that could spend much meanwhile. */
void pause_spenders(struct collector *collector);

/* Places the shared probes again before a process is looked at for the first time. */
int resume_shared(struct collector *collector);

#endif
