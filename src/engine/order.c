// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/reason.h"
#include "engine/frame.h"

static int descending(int64_t a, int64_t b)
{
	return (a < b) - (a > b);
}

static int by_key(const struct statistic *a, const struct statistic *b)
{
	return a->key ? strcmp(b->key, a->key) : traceback_compare(b, a);
}

static int by_cost(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(a->cost.size, b->cost.size) ?:
	       descending(a->cost.count, b->cost.count) ?: by_key(a, b);
}

static int by_diff(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(llabs(a->diff.size), llabs(b->diff.size)) ?:
	       descending(a->cost.size, b->cost.size) ?:
	       descending(llabs(a->diff.count), llabs(b->diff.count)) ?:
	       descending(a->cost.count, b->cost.count) ?: by_key(a, b);
}

static int compare_growth(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(a->diff.size, b->diff.size) ?:
	       descending(a->diff.count, b->diff.count) ?: by_cost(a, b);
}

static int by_shrink(const void *left, const void *right)
{
	const struct statistic *a = left, *b = right;

	return descending(b->diff.size, a->diff.size) ?:
	       descending(b->diff.count, a->diff.count) ?: by_cost(a, b);
}

static const struct {
	const char *name;
	int (*compare)(const void *left, const void *right);
} orders[] = {
	[SORT_ABS] = { "abs", by_diff },
	[SORT_GROWTH] = { "growth", compare_growth },
	[SORT_SHRINK] = { "shrink", by_shrink },
};
_Static_assert(sizeof(orders) / sizeof(orders[0]) == SORT_ORDER_NR, "every order has a row");

const char *sort_order_name(enum sort_order order)
{
	return orders[order].name;
}

int sort_order_parse(const char *text, enum sort_order *ret_order, struct reason *why)
{
	char names[128] = "";

	for (enum sort_order i = 0; i < SORT_ORDER_NR; i++) {
		if (!strcmp(text, orders[i].name)) {
			*ret_order = i;
			return 0;
		}
		strcat(names, i ? ", " : "");
		strcat(names, orders[i].name);
	}
	return reason_set(why, -EINVAL, "unknown order \"%.100s\"; there are %s", text, names);
}

void statistics_sort(struct statistic *statistic, size_t nr)
{
	if (nr)
		qsort(statistic, nr, sizeof(*statistic), by_cost);
}

void statistics_sort_diff(struct statistic *statistic, size_t nr, enum sort_order order)
{
	if (nr)
		qsort(statistic, nr, sizeof(*statistic), orders[order].compare);
}

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

	return (a > b) - (a < b) ?: orders[order->order].compare(left, right);
}

void statistics_sort_means(struct statistic *statistic, size_t nr, enum sort_order order,
			   const struct process_nr *processes)
{
	struct mean_order by = { processes, order };

	if (nr)
		qsort_r(statistic, nr, sizeof(*statistic), by_mean, &by);
}
