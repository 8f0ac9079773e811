/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ORDER_H
#define ALLOCSNAP_ENGINE_ORDER_H

#include <stddef.h>
#include <stdint.h>

#include "engine.h"

/* By size, count, traceback or key, all descending. */
void statistics_sort(struct statistic *statistic, size_t nr);

/* The sort orders of a diff; engine.h describes them. */
void statistics_sort_diff(struct statistic *statistic, size_t nr, enum sort_order order);

/*
 * Compares sums over different numbers of processes by their means per process. All rows of a diff
 * have the same numbers of processes, so whole numbers have the same order:
 *
 *	new / new_nr - old / old_nr  =  (new × old_nr - old × new_nr) / (old_nr × new_nr)
 */
struct process_nr {
	uint32_t old, new; /* at least 1; a process that was added at several times counts for each of them */
};

/* The difference of the means of one number, which is `now` and was `now - diff`. */
double process_mean_diff(int64_t now, int64_t diff, const struct process_nr *nr);

/* Sorts by the difference of mean sizes as `order` says; equal rows keep the order of the sums. */
void statistics_sort_means(struct statistic *statistic, size_t nr, enum sort_order order,
			   const struct process_nr *processes);

#endif
