/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_UNIT_CPU_LIMIT_H
#define TESTS_UNIT_CPU_LIMIT_H

/*
 * A limit for a test that must not compute for long. It counts CPU time, so that a busy machine fails no test. A test
 * that could wait for ever has a .timeout of ten minutes.
 */

#include <criterion/criterion.h>
#include <sys/resource.h>

/* The process of the running test ends by SIGXCPU after so many seconds of CPU time. */
static inline void limit_cpu_seconds(rlim_t seconds)
{
	cr_assert_eq(setrlimit(RLIMIT_CPU, &(struct rlimit){ seconds, seconds + 1 }), 0);
}

#endif
