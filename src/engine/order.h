/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ORDER_H
#define ALLOCSNAP_ENGINE_ORDER_H

#include "engine.h"

/* By size, count, traceback or key, all descending. */
void statistics_sort(struct statistic *statistic, size_t nr);

/* The sort orders of a diff; engine.h describes them. */
void statistics_sort_diff(struct statistic *statistic, size_t nr, enum sort_order order);
/* Compares two statistics by such an order: < 0, 0, > 0. */
int statistic_compare_diff(const struct statistic *a, const struct statistic *b, enum sort_order order);

#endif
