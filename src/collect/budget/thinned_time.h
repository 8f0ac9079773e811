/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_THINNED_TIME_H
#define ALLOCSNAP_THINNED_TIME_H

/* How long only samples of a process were recorded to stay within a budget. Times are of CLOCK_MONOTONIC. */

#include <stdbool.h>
#include <stdint.h>

/* A zeroed struct is the beginning: every block is recorded. */
struct thinned_time {
	uint64_t sum_ns;   /* until since_ns */
	uint64_t since_ns; /* only samples are recorded since then; 0: every block is */
};

/* From now_ns on only samples are recorded, or every block is. */
static inline void thinned_time_set(struct thinned_time *time, bool is_thinned, uint64_t now_ns)
{
	if (time->since_ns && now_ns > time->since_ns)
		time->sum_ns += now_ns - time->since_ns;
	time->since_ns = is_thinned ? now_ns : 0;
}

/* The sum until now_ns, which may be earlier than the last change: a process may have ended before it. */
static inline uint64_t thinned_time_until(const struct thinned_time *time, uint64_t now_ns)
{
	return time->sum_ns + (time->since_ns && now_ns > time->since_ns ? now_ns - time->since_ns : 0);
}

#endif
