/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_BUDGET_H
#define ALLOCSNAP_COLLECT_BUDGET_BUDGET_H

/*
 * Decides how much of a process may be recorded. This is arithmetic only: the caller reads the clocks.
 *
 * Recording a process may take `percent` of the CPU time that the process uses itself. That time counts as one core
 * at most, and as a tenth of a core at least: so a process that is nearly idle is recorded, too. A core is what a second
 * of it has or, if that is less, what the quota of the process's control group gives in a second.
 *
 * A credit grows by this, up to what one second gives, and the cost is taken from it. So a burst of a moment is free, and
 * a burst that is over is forgotten after some seconds, however little the process does since. The credit that is left
 * decides:
 *
 *	full		every block is recorded, or --sample as it was asked for
 *	below 1/2	samples; below 1/8 and 1/16 samples by the coarser rates
 *	none		the recording pauses, until half of the credit is there again; then it samples by the first rate
 *
 * At 3/4 a finer rate is tried. So a process whose samples fit into the budget never pauses.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/budget/calibrate.h"
#include "shared/bpf_types.h"

#define BUDGET_CORE_NS 1000000000ULL /* the CPU time that one core has in a second */

/* The limits of a budget. The caller may change core_ns at any time. */
struct budget_terms {
	uint64_t percent;	   /* 0: there is no budget */
	uint64_t core_ns;	   /* the CPU time in each second that percent is of at most */
	uint64_t least_stretch_ns; /* the least cost that makes it worth to go on after a pause */
	bool is_of_core;	   /* of core_ns, whatever is used */
};

/* CPU time of a process since its recording began. */
struct budget_use {
	uint64_t cost_ns; /* for being recorded */
	uint64_t own_ns;  /* for its own work */
};

/* Zeroed: there is no budget. */
struct budget {
	struct budget_terms terms;
	struct budget_use use;	   /* at the last update */
	uint64_t share_ns;	   /* what a second gives, a mean of the last ones */
	int64_t left_ns;	   /* the credit, or below 0 the debt */
	uint64_t now_ns;	   /* of the last update */
	uint64_t rate_ns;	   /* when the rate changed */
	uint64_t spent_ns;	   /* when the credit was last used up; 0: never */
	uint32_t rate;		   /* the sampling rate that the credit allows, below SAMPLE_RATES */
	bool is_spent;
};

/* Begins with the full credit of a busy process. */
void budget_begin(struct budget *budget, const struct budget_terms *terms);

/* now_ns: from a clock that never goes back. */
void budget_update(struct budget *budget, const struct budget_use *use, uint64_t now_ns);

/* Whether nothing can be earned by having the use read. */
bool budget_is_full(const struct budget *budget);

/*
 * Returns how long to wait before the next update: until the budget could be spent, or enough of it could be there
 * again, if so many processors spend at once. 1 ms to 100 ms; UINT64_MAX without a budget.
 */
uint64_t budget_wait_ns(const struct budget *budget, unsigned int processors);

/* Whether the process has paused lately: then it cannot go unwatched for long, unless it is paused. */
bool budget_is_spending(const struct budget *budget, uint64_t now_ns);

/* The gaps that a budget has made in a recording. */

/* In CLOCK_MONOTONIC, from the start of the removal of the first probe until all probes are back. */
struct gap {
	uint64_t start_ns, end_ns;
	uint64_t before_ns; /* length of all gaps before it */
};

#define GAPS_MAX 4096 /* the latest gaps; of older ones only number and length are kept */

/* Zeroed: no budget, no gaps. */
struct pausing {
	struct cost_sum gone; /* cost of processes that are no longer traced */
	struct gap *gap;
	size_t gap_nr, gap_alloc;
	uint64_t open_ns; /* when the pause began; 0: not paused */
	uint64_t nr, length_ns; /* of all gaps except an open one */
	bool is_stuck; /* the last attempt to resume failed, and a note was logged */
};

void pausing_release(struct pausing *pausing);

/* Reserves memory for a gap that is about to be opened. 0 or -ENOMEM. */
int pausing_make_room(struct pausing *pausing);

/* Closes the open gap. */
void pausing_close_gap(struct pausing *pausing, uint64_t now_ns);

/* Adds a gap that is known only now, or makes the last one longer. No gap may be later; an open one includes it. */
int pausing_add_past(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns);

struct gaps_sum {
	uint64_t nr, length_ns;
};

/*
 * Sums the gaps from start_ns to now_ns, including an open one: of a shared budget, a process has those since its
 * recording began. Where gap[] does not reach back to the start, all older ones count.
 */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns);

/* The CPU time that the control groups of a process let it have: cpu.max, or cpu.cfs_quota_us of version 1. */

#define QUOTA_HIERARCHIES 2

/* Where the hierarchies that have quotas are mounted. Zeroed: no hierarchy is mounted. */
struct cpu_quotas {
	struct quota_hierarchy {
		char *point; /* NULL: it is not mounted */
		char *root;  /* the group that lies there */
	} hierarchy[QUOTA_HIERARCHIES];
};

/* mountinfo: the text of /proc/self/mountinfo, which is changed. 0 or -ENOMEM. */
int cpu_quotas_find(struct cpu_quotas *quotas, char *mountinfo);
void cpu_quotas_release(struct cpu_quotas *quotas);

/*
 * groups: the text of /proc/PID/cgroup. Returns the least CPU time in ns that a group of the process, or one above it,
 * has in each second. UINT64_MAX: there is no quota, or none that can be read.
 */
uint64_t cpu_quota_ns(const struct cpu_quotas *quotas, const char *groups);

#endif
