// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/order.h"

#include <stdlib.h>

#include "engine/frame.h"

static int descending(int64_t a, int64_t b)
{
	return (a < b) - (a > b);
}

static int by_cost(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(a->cost.size, b->cost.size) ?:
	       descending(a->cost.count, b->cost.count) ?: traceback_compare(b, a);
}

static int by_diff(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(llabs(a->diff.size), llabs(b->diff.size)) ?:
	       descending(a->cost.size, b->cost.size) ?:
	       descending(llabs(a->diff.count), llabs(b->diff.count)) ?:
	       descending(a->cost.count, b->cost.count) ?: traceback_compare(b, a);
}

void statistics_sort(struct statistic *statistic, size_t nr, bool is_diff)
{
	if (nr)
		qsort(statistic, nr, sizeof(*statistic), is_diff ? by_diff : by_cost);
}
