/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_RANKED_H
#define ALLOCSNAP_FLEET_RANKED_H

#include <stddef.h>
#include <stdint.h>

/* The values of nr hosts, ascending: first a zero for each host that has nothing, then the bytes of the others. */
struct ranked {
	const int64_t *bytes; /* nr - zeros values, sorted, none below 0 */
	size_t zeros, nr;     /* nr: at least 1 */
};

/* Returns value number `at`, from 0. */
int64_t ranked_get(const struct ranked *ranked, size_t at);

/* Returns the value at the nearest rank: number ceil(percent / 100 × nr), from 1. */
int64_t ranked_quantile(const struct ranked *ranked, unsigned int percent);

/* Returns the median of the distances from the median. */
int64_t ranked_mad(const struct ranked *ranked);

#endif
