// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/process_mean.h"

#include <stdlib.h>

#include "engine/order.h"

static __int128 whole_diff(int64_t now, int64_t diff, const struct process_nr *nr)
{
	return (__int128)now * nr->old - ((__int128)now - diff) * nr->new;
}

double process_mean_diff(int64_t now, int64_t diff, const struct process_nr *nr)
{
	return (long double)whole_diff(now, diff, nr) / ((long double)nr->old * nr->new);
}

struct mean_order {
	const struct process_nr *nr;
	enum sort_order order;
};

/* The sort key: a smaller rank comes first. */
static __int128 rank_statistic(const struct statistic *statistic, const struct mean_order *order)
{
	__int128 diff = whole_diff(statistic->cost.size, statistic->diff.size, order->nr);

	switch (order->order) {
	case SORT_GROWTH:
		return -diff;
	case SORT_SHRINK:
		return diff;
	default:
		return diff < 0 ? diff : -diff;
	}
}

static int by_mean(const void *left, const void *right, void *order_)
{
	const struct mean_order *order = order_;
	__int128 a = rank_statistic(left, order), b = rank_statistic(right, order);

	return (a > b) - (a < b) ?: statistic_compare_diff(left, right, order->order);
}

void statistics_sort_means(struct statistic *statistic, size_t nr, enum sort_order order,
			   const struct process_nr *processes)
{
	struct mean_order by = { processes, order };

	if (nr)
		qsort_r(statistic, nr, sizeof(*statistic), by_mean, &by);
}
