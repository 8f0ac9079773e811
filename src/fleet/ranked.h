/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_RANKED_H
#define ALLOCSNAP_FLEET_RANKED_H

#include <stddef.h>
#include <stdint.h>

/* What nr hosts have, ascending: zeros of those that have nothing, and then the bytes of those that do. */
struct ranked {
	const int64_t *bytes; /* nr - zeros of them, sorted, none below 0 */
	size_t zeros, nr;     /* nr: at least 1 */
};

/* Number `at`, from 0. */
int64_t ranked_get(const struct ranked *ranked, size_t at);

/* The nearest rank: number ceil(percent / 100 × nr), from 1. */
int64_t ranked_quantile(const struct ranked *ranked, unsigned int percent);

/* The median of the distances from the median. */
int64_t ranked_mad(const struct ranked *ranked);

#endif
