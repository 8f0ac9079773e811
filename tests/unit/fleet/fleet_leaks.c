// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>

#define fleet_walk fleet_walk_told
#include "fleet/leaks.c"

#include "base/array.h"
#include "fleet_fixture.h"

#define NONE -1, -1, -1, -1, -1, -1, -1, -1, -1, -1
#define S 1000000000ll

static struct leak_rows ask(const struct told_fleet *fleet)
{
	struct reason why = { "" };
	struct leak_rows rows = {};

	cr_assert_eq(fleet_find_leaks(&fleet->question, &rows, &why), 0, "%s", why.text);
	return rows;
}

/* Is it a leak in a process that has these bytes, one snapshot a second? A size of -2 ends them. */
static bool is_leaking(const int64_t *bytes)
{
	struct told told[16] = {};
	struct leak_rows rows;
	size_t nr = 0;
	bool is_leak;

	for (; bytes[nr] != -2; nr++)
		told[nr] = (struct told){ 1, 1, nr * S, { bytes[nr], -1, NONE } };
	rows = ask(tell(told, nr));
	is_leak = rows.row_nr;
	leak_rows_release(&rows);
	return is_leak;
}

#define EXPECT(is_leak, ...) \
	cr_expect_eq(is_leaking((const int64_t[]){ __VA_ARGS__, -2 }), is_leak, #__VA_ARGS__)

Test(fleet_find_leaks, need_three_steps_up_in_four)
{
	EXPECT(true, 1, 2, 3);
	EXPECT(true, 10, 20, 30, 25, 40);
	EXPECT(true, 1, 1, 2, 2, 3);
	EXPECT(false, 10, 20, 15, 30);
	EXPECT(false, 10, 20, 30, 40, 9);
	EXPECT(false, 5, 5, 5);
	EXPECT(false, 1, 2);
	EXPECT(false, 3, 2, 1);
}

Test(fleet_find_leaks, do_not_include_a_warm_up)
{
	EXPECT(false, 1, 1, 3);
	EXPECT(false, 1, 9, 9);
	EXPECT(false, -1, 9, 9, 9, 9);
	EXPECT(false, 1, 5, 9, 9, 9, 9);
	EXPECT(true, 1, 5, 9, 9, 9);
}

/* A cohort of an hour has many processes that were seen once or twice. */
Test(fleet_find_leaks, do_not_count_processes_with_too_few_snapshots)
{
	struct told told[64];
	struct leak_rows rows;
	size_t nr = 0;

	for (uint32_t host = 1; host <= 9; host++)
		for (int64_t at = 0; at < (host <= 2 ? 3 : host % 2 ? 1 : 2); at++)
			told[nr++] = (struct told){ host, 2 * host, at * S, { 10 + at, -1, NONE } };
	told[nr++] = (struct told){ 9, 19, 0, { 10, -1, NONE } };
	rows = ask(tell(told, nr));
	cr_assert_eq(rows.row_nr, 1);
	cr_expect(rows.row[0].hosts == 2 && rows.row[0].hosts_growing == 2);
	cr_expect(rows.row[0].processes == 2 && rows.row[0].processes_growing == 2);
	cr_expect_eq(rows.processes_short, 8);
	cr_expect_eq(rows.hosts_unjudged, 7);
	leak_rows_release(&rows);
}

Test(fleet_find_leaks, treat_a_missing_group_as_zero)
{
	EXPECT(true, -1, 1, 2);
	EXPECT(false, -1, -1, 2);
	EXPECT(false, 1, -1, 2, 3);	/* 3 steps: down, up, up */
	EXPECT(true, 1, -1, 2, 3, 4);
	EXPECT(false, 1, 2, 3, -1);
	EXPECT(true, 0, 1, -1, 5, 6);	/* up, down, up, up */
	EXPECT(false, 0, 1, -1, 5);
}

/* The group grows on `growing` of `hosts` hosts; on the other hosts no process has it. */
static size_t leaks_of(uint32_t growing, uint32_t hosts)
{
	struct told told[300];
	struct leak_rows rows;
	size_t nr = 0, leaks;

	for (uint32_t host = 1; host <= 20; host++)
		for (int64_t at = 0; at < 3; at++)
			told[nr++] = (struct told){
				host, host, at * S,
				{ host > hosts ? -1 : host > growing ? 50 : 50 + at, -1, NONE },
			};
	rows = ask(tell(told, nr));
	leaks = rows.row_nr;
	if (leaks)
		cr_expect(rows.row[0].hosts == hosts && rows.row[0].hosts_growing == growing);
	leak_rows_release(&rows);
	return leaks;
}

Test(fleet_find_leaks, must_grow_on_half_of_the_hosts_that_have_the_group)
{
	cr_expect_eq(leaks_of(5, 10), 1);
	cr_expect_eq(leaks_of(4, 10), 0);
	cr_expect_eq(leaks_of(20, 20), 1);
	cr_expect_eq(leaks_of(1, 1), 1, "the only one that has it");
	cr_expect_eq(leaks_of(1, 2), 0, "one of two is a host, not a leak");
	cr_expect_eq(leaks_of(0, 5), 0);
}

/* Two hosts with two processes; one process of the second host shrinks, which is not taken off the others' growth. */
Test(fleet_find_leaks, count_only_the_growth_of_growing_processes)
{
	const struct told told[] = {
		{ 1, 1, 0, { 10, -1, NONE } }, { 1, 1, 10 * S, { 30, -1, NONE } }, { 1, 1, 20 * S, { 110, -1, NONE } },
		{ 1, 2, 0, { 10, 7, NONE } }, { 1, 2, 10 * S, { 20, 8, NONE } }, { 1, 2, 20 * S, { 30, 9, NONE } },
		{ 2, 3, 0, { 10, -1, NONE } }, { 2, 3, 10 * S, { 20, -1, NONE } }, { 2, 3, 20 * S, { 40, -1, NONE } },
		{ 2, 4, 0, { 90, -1, NONE } }, { 2, 4, 10 * S, { 80, -1, NONE } }, { 2, 4, 20 * S, { 70, -1, NONE } },
		{ 2, 5, 0, { 1, -1, NONE } }, { 2, 5, 10 * S, { 2, -1, NONE } },
	};
	struct leak_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 0 && rows.row[0].growth == 150);
	cr_expect(rows.row[0].hosts == 2 && rows.row[0].hosts_growing == 2);
	cr_expect(rows.row[0].processes == 4 && rows.row[0].processes_growing == 3);
	cr_expect(rows.row[1].group == 1 && rows.row[1].growth == 2 && rows.row[1].hosts == 1);
	cr_expect(rows.processes_short == 1 && rows.hosts_unjudged == 0);
	/* (1000 + 200 + 300) / (3 × 200) */
	cr_expect_float_eq(rows.row[0].slope, 2.5, 1e-12);
	leak_rows_release(&rows);
}

/* A restarted recorder does not know earlier blocks: the smaller numbers are no decrease. */
Test(fleet_find_leaks, add_up_the_growth_of_each_recording_of_a_process)
{
	struct told told[7];
	struct leak_rows rows;

	for (uint32_t i = 0; i < 7; i++)
		told[i] = (struct told){ 1, 1, i * S, { 100 * (i < 4 ? i + 1 : i - 3), -1, NONE }, i < 4 ? 5 : 9 };
	rows = ask(tell(told, 7));
	cr_assert_eq(rows.row_nr, 1);
	cr_expect(rows.row[0].processes == 1 && rows.row[0].processes_growing == 1);
	cr_expect_eq(rows.row[0].growth, 300 + 200);
	cr_expect_float_eq(rows.row[0].slope, 100, 1e-12);
	cr_expect_eq(rows.processes_short, 0);
	leak_rows_release(&rows);
}

/* Blocks freed in a gap still look live, so they pile up: the process must not be reported. */
Test(fleet_find_leaks, leave_out_processes_with_gaps)
{
	struct told told[9];
	struct leak_rows rows;

	for (uint32_t i = 0; i < 9; i++)
		told[i] = (struct told){ 1 + i / 6, i / 3, i % 3 * S, { 10 + i % 3, -1, NONE },
					 .has_gap_blocks = i == 2 || i == 8 };
	rows = ask(tell(told, 9));
	cr_assert_eq(rows.row_nr, 1);
	cr_expect(rows.row[0].processes == 1 && rows.row[0].hosts == 1);
	cr_expect(rows.processes_in_gaps == 2 && rows.processes_short == 0 && rows.hosts_unjudged == 1);
	leak_rows_release(&rows);
}

/* Random series do not grow for long: none is a leak. */
Test(fleet_find_leaks, are_not_found_in_random_series)
{
	for (unsigned int seed = 0; seed < 20; seed++) {
		struct leak_rows rows = ask(tell_random(seed, 200, 1000000));

		cr_expect_eq(rows.row_nr, 0);
		leak_rows_release(&rows);
	}
}

Test(fleet_find_leaks, beyond_63_bits_are_an_error)
{
	struct told told[6];
	struct leak_rows rows = {};
	struct reason why;

	for (uint32_t i = 0; i < 6; i++)
		told[i] = (struct told){ 1 + i / 3, 1 + i / 3, i % 3, { i % 3 * (INT64_MAX / 3), -1, NONE } };
	cr_expect_eq(fleet_find_leaks(&tell(told, 6)->question, &rows, &why), -ERANGE);
	cr_expect_null(rows.row);
}
