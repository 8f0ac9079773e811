/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_CHOICE_H
#define ALLOCSNAP_ENGINE_LEAK_CHOICE_H

/* Which snapshots of a recording are judged for leaks, and from when on. */

#include <stdbool.h>
#include <stddef.h>

#include "engine/leak_tally.h"

/* More snapshots are no better, and cost time. */
#define LEAK_SNAPSHOTS 12

struct leak_moment {
	uint64_t now_ns; /* of CLOCK_MONOTONIC; 0: not known */
	uint64_t clears; /* how often traces had been cleared */
};

/* The time of a recording, and the part of it that is wanted. */
struct leak_span {
	uint64_t begin_ns; /* when it began; UINT64_MAX: not known */
	uint64_t last_ns;  /* only the end of it is wanted; 0: all of it */
};

/*
 * Chooses among the moments of a recording, which are in the order of time: none from before traces were cleared,
 * each time once, and at most LEAK_SNAPSHOTS of them, as evenly in time as they are there. Sets keep[] for each, and
 * the beginning of what is observed in *ret. Returns how many were chosen; 0: their times are not known.
 */
size_t leak_moments_choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span, bool *keep,
			   struct leak_times *ret);

#endif
