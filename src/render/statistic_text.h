/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_STATISTIC_TEXT_H
#define ALLOCSNAP_RENDER_STATISTIC_TEXT_H

struct cost;
struct estimate;

#define COST_TEXT_MAX 512

/*
 * "size=5002 B (+5000 B), count=2 (+1)": the middle of tracemalloc's str(StatisticDiff), or of str(Statistic) if diff
 * is NULL. With an estimate each inexact number has its error behind it, the distance to the farther end of its
 * interval: "size=66.0 KiB ±12.1 KiB, count=132 ±24". Returns text.
 */
const char *cost_text(char text[COST_TEXT_MAX], const struct cost *cost, const struct cost *diff,
		      const struct estimate *estimate);

#endif
