/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_STATISTIC_TEXT_H
#define ALLOCSNAP_RENDER_STATISTIC_TEXT_H

struct cost;

#define COST_TEXT_MAX 256

/*
 * "size=5002 B (+5000 B), count=2 (+1)", the middle of tracemalloc's str(StatisticDiff), or of
 * str(Statistic) where diff is NULL. Returns text.
 */
const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff);

#endif
