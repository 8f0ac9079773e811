// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Diffs of cohorts with different numbers of processes. */
#include <criterion/criterion.h>

#include "base/array.h"
#include "engine/order.h"

static const struct process_nr five_and_two = { .old = 5, .new = 2 };

static void expect_order(const char *what, enum sort_order order, const struct process_nr *nr,
			 const char *want)
{
	/* The comments give the means, from 5 processes to 2. */
	struct statistic rows[] = {
		{ .key = "a", .cost = { 200, 2 }, .diff = { -300, 0 } }, /* 100 to 100 */
		{ .key = "b", .cost = { 600, 2 }, .diff = { 100, 0 } },	 /* 100 to 300 */
		{ .key = "c", .cost = { 0, 0 }, .diff = { -500, 0 } },	 /* 100 to 0 */
		{ .key = "d", .cost = { 2, 1 }, .diff = { 2, 1 } },	 /* 0 to 1 */
		{ .key = "e", .cost = { 40, 4 }, .diff = { -60, 0 } },	 /* 20 to 20 */
	};
	char got[ARRAY_SIZE(rows) + 1] = "";

	statistics_sort_means(rows, ARRAY_SIZE(rows), order, nr);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		got[i] = *rows[i].key;
	cr_expect_str_eq(got, want, "%s: %s", what, got);
}

/* Rows with equal means are ordered by their sums. */
Test(engine_process_mean, orders_rows)
{
	expect_order("abs", SORT_ABS, &five_and_two, "bcdae");
	expect_order("growth", SORT_GROWTH, &five_and_two, "bdeac");
	expect_order("shrink", SORT_SHRINK, &five_and_two, "caedb");
	expect_order("as many", SORT_ABS, &(struct process_nr){ 3, 3 }, "cabed");
}

/* A byte more, in a sum that a double can't hold to the byte. */
Test(engine_process_mean, is_exact)
{
	const int64_t large = INT64_MAX - 1;
	struct statistic rows[] = {
		{ .key = "a", .cost = { large, 1 }, .diff = { large, 1 } },
		{ .key = "b", .cost = { large + 1, 1 }, .diff = { large + 1, 1 } },
	};

	statistics_sort_means(rows, 2, SORT_ABS, &(struct process_nr){ UINT32_MAX, 3 });
	cr_expect_str_eq(rows[0].key, "b");
	cr_expect_eq(process_mean_diff(6, 1, &five_and_two), 2.0);
	cr_expect_eq(process_mean_diff(large, 0, &(struct process_nr){ 7, 7 }), 0.0);
	cr_expect_eq(process_mean_diff(0, -10, &five_and_two), -2.0);
}
