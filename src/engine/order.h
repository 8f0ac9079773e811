/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ORDER_H
#define ALLOCSNAP_ENGINE_ORDER_H

#include "engine.h"

/*
 * tracemalloc's orders, all descending: size, count, traceback; and for a diff |size_diff|,
 * size, |count_diff|, count, traceback.
 */
void statistics_sort(struct statistic *statistic, size_t nr, bool is_diff);

#endif
