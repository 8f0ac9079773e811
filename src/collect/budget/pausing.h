/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PAUSING_H
#define ALLOCSNAP_COLLECT_PAUSING_H

/* The gaps that a budget has made in a recording. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/budget/budget.h"

/* CLOCK_MONOTONIC: from when the first probe was being taken away till all were back. */
struct gap {
	uint64_t start_ns, end_ns;
};

#define GAPS_MAX 4096 /* the latest; of older ones number and length are kept */

/* Zeroed: no budget, no gaps. */
struct pausing {
	struct budget budget;
	struct cost_sum gone; /* of processes that are traced no longer, whose budget this was */
	struct gap *gap;
	size_t gap_nr, gap_alloc;
	uint64_t open_ns; /* since when it pauses; 0: it does not */
	uint64_t nr, length_ns; /* of all gaps, but for an open one */
	bool is_stuck; /* the last try to go on has failed, and it was said */
};

void pausing_release(struct pausing *pausing);

/* For a gap that is about to be opened. 0 or -ENOMEM. */
int pausing_make_room(struct pausing *pausing);

/* The one that is open. */
void pausing_close_gap(struct pausing *pausing, uint64_t now_ns);

struct gaps_sum {
	uint64_t nr, length_ns;
};

/* Of all gaps up to a time, open ones too. */
struct gaps_sum pausing_sum(const struct pausing *pausing, uint64_t now_ns);

#endif
