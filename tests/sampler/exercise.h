/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_SAMPLER_EXERCISE_H
#define TESTS_SAMPLER_EXERCISE_H

/* exercise MODE [ARGUMENT…]: what each mode does is in exercise.c. */

#include <stdint.h>

/* A stream of numbers, by the state at *x, which is not 0. */
static inline uint64_t xorshift(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

/* estimates.c */
void run_rounds(int rounds, int threads, int changes_interval);

#endif
