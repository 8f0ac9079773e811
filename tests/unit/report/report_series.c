// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "report/report_series.h"

/* Events at the numbers in `event`, ended by 0; the path of an item is its number. */
static struct series made_series(size_t nr, const size_t *event)
{
	struct series series = { .given_nr = nr };

	for (size_t i = 0; i < nr; i++) {
		struct series_item item = { .process = strdup("p"), .moment.monotonic_ns = i + 1, .is_timed = true };

		cr_assert(asprintf(&item.path, "%zu", i) > 0);
		for (const size_t *at = event; *at; at++)
			item.is_timed &= *at != i;
		cr_assert_eq(array_push(&series, item, item), 0);
	}
	return series;
}

static bool has_item(const struct series *series, size_t number)
{
	for (size_t i = 0; i < series->item_nr; i++)
		if (strtoul(series->item[i].path, NULL, 10) == number)
			return true;
	return false;
}

static void expect_ascending(const struct series *series)
{
	for (size_t i = 1; i < series->item_nr; i++)
		cr_expect_lt(series->item[i - 1].moment.monotonic_ns, series->item[i].moment.monotonic_ns);
}

Test(report_series, stays_if_it_is_short)
{
	struct series series = made_series(120, (size_t[]){ 0 });

	cr_assert_eq(series_thin(&series, 120), 0);
	cr_expect_eq(series.item_nr, 120);
	report_series_release(&series);
}

Test(report_series, keeps_first_last_and_events)
{
	struct series series = made_series(1000, (size_t[]){ 3, 4, 777, 0 });
	size_t widest = 0;

	cr_assert_eq(series_thin(&series, 120), 0);
	cr_expect_eq(series.item_nr, 120);
	cr_expect_eq(series.given_nr, 1000);
	expect_ascending(&series);
	for (size_t i = 0; i < 5; i++)
		cr_expect(has_item(&series, (size_t[]){ 0, 3, 4, 777, 999 }[i]));
	for (size_t i = 1; i < series.item_nr; i++) {
		size_t step = series.item[i].moment.monotonic_ns - series.item[i - 1].moment.monotonic_ns;

		widest = step > widest ? step : widest;
	}
	cr_expect_lt(widest, 12, "995 snapshots on 115 places: about every ninth");
	report_series_release(&series);
}

Test(report_series, thins_out_events_too)
{
	size_t event[500] = {};
	struct series series;

	for (size_t i = 0; i < 499; i++)
		event[i] = i + 1;
	series = made_series(500, event);
	cr_assert_eq(series_thin(&series, 10), 0);
	cr_expect_eq(series.item_nr, 10);
	cr_expect(has_item(&series, 0) && has_item(&series, 499));
	expect_ascending(&series);
	report_series_release(&series);
}

Test(report_series, knows_processes)
{
	struct series series = made_series(3, (size_t[]){ 0 });

	cr_expect(series_is_one_process(&series));
	strcpy(series.item[2].process, "q");
	cr_expect(!series_is_one_process(&series));
	report_series_release(&series);
}

Test(report_series, is_sorted_by_time)
{
	struct series series = made_series(3, (size_t[]){ 0 });

	series.item[0].moment.monotonic_ns = 9;
	series_sort(&series);
	cr_expect_str_eq(series.item[2].path, "0");
	expect_ascending(&series);
	report_series_release(&series);
}
