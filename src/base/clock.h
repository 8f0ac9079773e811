/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CLOCK_H
#define ALLOCSNAP_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SECOND_NS 1000000000ull

#define BUDGET_IDLE_PART 10 /* of a core: a process that uses less counts as if it used that much (--max-overhead) */

/* The time of a clock; 0 if it cannot be read (the process that it belongs to has ended). */
static inline uint64_t clock_now_ns(clockid_t clock)
{
	struct timespec now = {};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

static inline uint64_t monotonic_now_ns(void)
{
	return clock_now_ns(CLOCK_MONOTONIC);
}

#endif
