// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

#define fleet_walk fleet_walk_told
#include "fleet/hosts.c"

#include "fleet_fixture.h"

#define HOSTS 61

static struct host_rows ask(const struct told_fleet *fleet)
{
	struct reason why = { "" };
	struct host_rows rows = {};

	cr_assert_eq(fleet_compare_hosts(&fleet->question, &rows, &why), 0, "%s", why.text);
	return rows;
}

static int ascending(const void *left, const void *right)
{
	int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;

	return (a > b) - (a < b);
}

/* Bytes of a group per host, summed over the latest snapshot of each process; -1: no process has the group. */
static void sum_by_host(const struct told_fleet *fleet, uint32_t group, int64_t bytes[HOSTS])
{
	memset(bytes, 0xff, HOSTS * sizeof(*bytes));
	for (size_t i = 0; i < fleet->facts.snapshot_nr; i++) {
		int64_t *host = &bytes[fleet->snapshot[i].host_nr];

		if (i + 1 < fleet->facts.snapshot_nr && fleet->snapshot[i + 1].process == fleet->snapshot[i].process)
			continue;
		if (fleet->told[i].bytes[group] >= 0)
			*host = (*host < 0 ? 0 : *host) + told_bytes(i, group);
	}
}

/*
 * Fills in the first host with the most bytes, how many hosts have the group, and their sum. A host without it gets 0.
 */
static void add_up(struct host_row *row, int64_t *bytes, size_t nr)
{
	row->max = -1;
	for (size_t i = 0; i < nr; i++) {
		row->hosts += bytes[i] >= 0;
		if (bytes[i] > row->max) {
			row->max = bytes[i];
			row->max_host = i;
		}
		if (bytes[i] < 0)
			bytes[i] = 0;
		row->sum += bytes[i];
	}
}

/* By the letter of fleet/spread.h, with a place for each host. */
static struct host_row row_of(const struct told_fleet *fleet, uint32_t group)
{
	int64_t bytes[HOSTS], sorted[HOSTS], distance[HOSTS];
	struct host_row row = { .group = group };
	size_t nr = fleet->facts.host_nr;
	double unit;

	sum_by_host(fleet, group, bytes);
	add_up(&row, bytes, nr);
	memcpy(sorted, bytes, sizeof(sorted));
	qsort(sorted, nr, sizeof(*sorted), ascending);
	row.median = sorted[(nr + 1) / 2 - 1];
	row.p95 = sorted[(95 * nr + 99) / 100 - 1];
	for (size_t i = 0; i < nr; i++)
		distance[i] = llabs(bytes[i] - row.median);
	qsort(distance, nr, sizeof(*distance), ascending);
	row.mad = distance[(nr + 1) / 2 - 1];
	unit = fmax(row.mad, fmax(4096, row.median / 100.0));
	for (size_t i = 0; i < nr; i++)
		row.outliers += bytes[i] - row.median > 3.5 / 0.6745 * unit;
	row.score = (row.max - row.median) * 0.6745 / unit;
	return row;
}

static void expect_row(const struct host_row *got, const struct host_row *want)
{
	cr_expect_eq(got->median, want->median, "%u: median", want->group);
	cr_expect_eq(got->p95, want->p95, "%u: p95", want->group);
	cr_expect_eq(got->max, want->max, "%u: max", want->group);
	cr_expect_eq(got->mad, want->mad, "%u: mad %jd, not %jd", want->group, (intmax_t)got->mad,
		     (intmax_t)want->mad);
	cr_expect_eq(got->sum, want->sum, "%u: sum", want->group);
	cr_expect_eq(got->max_host, want->max_host, "%u: host", want->group);
	cr_expect_eq(got->hosts, want->hosts, "%u: hosts", want->group);
	cr_expect_eq(got->outliers, want->outliers, "%u: outliers", want->group);
	cr_expect_eq(got->score, want->score, "%u: score", want->group);
}

static void expect_all(const struct told_fleet *fleet)
{
	struct host_rows rows = ask(fleet);
	bool is_there[TOLD_GROUPS] = {};

	for (size_t i = 0; i < rows.row_nr; i++) {
		struct host_row want = row_of(fleet, rows.row[i].group);

		expect_row(&rows.row[i], &want);
		is_there[rows.row[i].group] = true;
		if (i)
			cr_expect(!rows.row[i].outliers || rows.row[i - 1].outliers, "outliers come first");
	}
	for (uint32_t i = 0; i < TOLD_GROUPS; i++)
		cr_expect_eq(is_there[i], row_of(fleet, i).hosts != 0, "group %u", i);
	host_rows_release(&rows);
}

/* The numbers are large, partly below the floor, or often equal. */
Test(fleet_compare_hosts, ranks_match_a_table_with_every_host)
{
	for (unsigned int nr = 1; nr <= HOSTS; nr++) {
		expect_all(tell_random(nr, nr, 1000000007));
		expect_all(tell_random(nr, nr, 50000));
		expect_all(tell_random(nr, nr, 3));
	}
}

#define NONE -1, -1, -1, -1, -1, -1, -1, -1, -1, -1

/* 60 hosts with what all have, that varies; the last one leaks it, and another group is larger everywhere. */
Test(fleet_compare_hosts, host_that_leaks_is_an_outlier)
{
	struct told told[HOSTS];
	struct host_rows rows;

	for (uint32_t i = 0; i < HOSTS; i++)
		told[i] = (struct told){ i + 1, i, 0, { 1000000 + 100 * (i % 7), 900000000 + 1000000 * (i % 9), NONE } };
	told[41].bytes[0] = 3000000;
	rows = ask(tell(told, HOSTS));
	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 0 && rows.row[0].outliers == 1 && rows.row[0].max_host == 41);
	cr_expect(rows.row[0].score > 100);
	cr_expect(rows.row[1].group == 1 && rows.row[1].outliers == 0);
	host_rows_release(&rows);
}

/* A difference of one page makes no outlier, however few the hosts are. */
Test(fleet_compare_hosts, almost_equal_hosts_have_no_outlier)
{
	struct told told[HOSTS];
	struct host_rows rows;

	for (uint32_t i = 0; i < HOSTS; i++)
		told[i] = (struct told){ i + 1, i, 0, { 8192, -1, NONE } };
	told[3].bytes[0] += 4096;
	rows = ask(tell(told, HOSTS));
	cr_expect(rows.row_nr == 1 && rows.row[0].mad == 0 && rows.row[0].outliers == 0);
	host_rows_release(&rows);
}

/* The hosts' numbers say nothing: "b" may be the first that was indexed. */
Test(fleet_compare_hosts, first_host_by_name_is_the_largest_of_equal_hosts)
{
	const struct told told[] = {
		{ 1, 1, 0, { 5000, -1, NONE } }, { 2, 2, 0, { 7000, -1, NONE } }, { 3, 3, 0, { 7000, -1, NONE } },
	};
	struct told_fleet *fleet = tell(told, ARRAY_SIZE(told));
	struct host_rows rows;

	fleet->snapshot[1].host = "b";
	fleet->snapshot[2].host = "a";
	rows = ask(fleet);
	cr_expect(rows.row_nr == 1 && rows.row[0].max_host == 2);
	host_rows_release(&rows);
}

Test(fleet_compare_hosts, group_that_no_host_has_is_no_row)
{
	const struct told told[] = { { 1, 1, 0, { 0, -1, NONE } } };
	struct host_rows rows = ask(tell(told, 1));

	cr_expect(rows.row_nr == 1 && rows.row[0].group == 0 && rows.row[0].hosts == 1 && !rows.row[0].max);
	host_rows_release(&rows);
}

Test(fleet_compare_hosts, sums_beyond_63_bits_are_an_error)
{
	const struct told told[] = {
		{ 1, 1, 0, { INT64_MAX, -1, NONE } }, { 2, 2, 0, { 1, -1, NONE } },
		{ 2, 3, 0, { INT64_MAX, -1, NONE } }, { 2, 4, 0, { 1, -1, NONE } },
	};
	struct host_rows rows = {};
	struct reason why;

	/* of several hosts, and of one */
	cr_expect_eq(fleet_compare_hosts(&tell(told, 2)->question, &rows, &why), -ERANGE);
	cr_expect_eq(fleet_compare_hosts(&tell(told + 2, 2)->question, &rows, &why), -ERANGE);
	cr_expect_null(rows.row);
}
