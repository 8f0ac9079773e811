/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUDGET_PAUSE_GAPS_H
#define ALLOCSNAP_COLLECT_BUDGET_PAUSE_GAPS_H

/* The gaps that a budget has made in a recording. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/budget/recording_cost.h"

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

#endif
