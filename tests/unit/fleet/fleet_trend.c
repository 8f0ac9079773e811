// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <math.h>

#define fleet_walk fleet_walk_told
#include "fleet/trend.c"

#include "base/array.h"
#include "fleet_fixture.h"

#define NONE -1, -1, -1, -1, -1, -1, -1, -1, -1, -1
#define S 1000000000ll

static struct trend_rows ask(const struct told_fleet *fleet)
{
	struct reason why = { "" };
	struct trend_rows rows = {};

	cr_assert_eq(fleet_find_trends(&fleet->question, &rows, &why), 0, "%s", why.text);
	return rows;
}

/* From one snapshot of each process to the next of the same. */
static size_t end_of(const struct told_fleet *fleet, size_t first)
{
	size_t end = first + 1;

	while (end < fleet->facts.snapshot_nr && fleet->snapshot[end].process == fleet->snapshot[first].process)
		end++;
	return end;
}

/* The slope by means, as it is written down in fleet/spread.h, in numbers of 113 bits. */
struct told_trend {
	__float128 moment, square, growth;
	struct trend_row row;
};

static void add_process(struct told_trend *trend, const struct told_fleet *fleet, uint32_t group,
			size_t first, size_t end)
{
	__float128 time = 0, bytes = 0, moment = 0, square = 0;
	bool has = false;

	for (size_t i = first; i < end; i++) {
		time += (__float128)fleet->told[i].time_ns / S / (end - first);
		bytes += (__float128)told_bytes(i, group) / (end - first);
		has |= fleet->told[i].bytes[group] >= 0;
	}
	for (size_t i = first; i < end; i++) {
		__float128 t = (__float128)fleet->told[i].time_ns / S - time;

		moment += t * (told_bytes(i, group) - bytes);
		square += t * t;
	}
	if (has && square > 0) {
		trend->moment += moment;
		trend->square += square;
		trend->growth += moment / square * (fleet->told[end - 1].time_ns - fleet->told[first].time_ns) / S;
	}
	trend->row.processes += has;
	trend->row.first += told_bytes(first, group);
	trend->row.last += told_bytes(end - 1, group);
}

static struct trend_row row_of(const struct told_fleet *fleet, uint32_t group)
{
	struct told_trend trend = {};

	for (size_t first = 0, end; first < fleet->facts.snapshot_nr; first = end) {
		end = end_of(fleet, first);
		add_process(&trend, fleet, group, first, end);
	}
	trend.row.slope = trend.square > 0 ? trend.moment / trend.square : 0;
	trend.row.growth = trend.growth;
	return trend.row;
}

static void expect_all(const struct told_fleet *fleet)
{
	struct trend_rows rows = ask(fleet);

	cr_expect_gt(rows.row_nr, TOLD_GROUPS / 2);
	for (size_t i = 0; i < rows.row_nr; i++) {
		const struct trend_row *got = &rows.row[i];
		struct trend_row want = row_of(fleet, got->group);

		cr_expect_leq(fabs(got->slope - want.slope), 1e-9 * fabs(want.slope), "%u: slope %.17g, not %.17g",
			      got->group, got->slope, want.slope);
		cr_expect_leq(fabs(got->growth - want.growth), 1e-9 * fabs(want.growth), "%u: growth %.17g, not %.17g",
			      got->group, got->growth, want.growth);
		cr_expect_eq(got->first, want.first, "%u: first", got->group);
		cr_expect_eq(got->last, want.last, "%u: last", got->group);
		cr_expect_eq(got->processes, want.processes, "%u: processes", got->group);
		cr_expect(!i || rows.row[i - 1].moment >= got->moment, "in order");
	}
	trend_rows_release(&rows);
}

Test(fleet_find_trends, slopes_match_the_formula)
{
	for (unsigned int seed = 0; seed < 50; seed++) {
		expect_all(tell_random(seed, 40, 1000000007));
		expect_all(tell_random(seed, 40, 1ll << 50));
		expect_all(tell_random(seed, 7, 3));
	}
}

/* 1 byte a second on 2^50, over half a century of seconds: what floating point would lose. */
Test(fleet_find_trends, small_slope_on_a_large_size_is_exact)
{
	const struct told told[] = {
		{ 1, 1, 1700000000 * S, { 1ll << 50, 1ll << 50, NONE } },
		{ 1, 1, 1700000001 * S, { (1ll << 50) + 1, 1ll << 50, NONE } },
		{ 1, 1, 1700000002 * S, { (1ll << 50) + 2, 1ll << 50, NONE } },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 0 && rows.row[0].slope == 1.0);
	cr_expect(rows.row[1].group == 1 && rows.row[1].slope == 0.0, "what does not change has no slope at all");
	trend_rows_release(&rows);
}

/* A large process that starts in the middle: the fleet is larger afterwards, and nothing grew. */
Test(fleet_find_trends, processes_that_start_and_exit_are_no_growth)
{
	const struct told told[] = {
		{ 1, 1, 0 * S, { 100, -1, NONE } }, { 1, 1, 10 * S, { 100, -1, NONE } },
		{ 1, 2, 20 * S, { 90000, -1, NONE } }, { 1, 2, 30 * S, { 90000, -1, NONE } },
		{ 1, 3, 40 * S, { 500, -1, NONE } },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 1);
	cr_expect_eq(rows.row[0].slope, 0.0);
	cr_expect(rows.row[0].processes == 3 && rows.processes == 2);
	cr_expect(rows.row[0].first == 90600 && rows.row[0].last == 90600);
	trend_rows_release(&rows);
}

/* A snapshot without the group counts as 0 for it. */
Test(fleet_find_trends, snapshot_without_a_group_counts_as_zero)
{
	const struct told told[] = {
		{ 1, 1, 0 * S, { -1, 40, NONE } }, { 1, 1, 10 * S, { 50, -1, NONE } },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 0 && rows.row[0].slope == 5.0);
	cr_expect(rows.row[0].first == 0 && rows.row[0].last == 50);
	cr_expect(rows.row[1].group == 1 && rows.row[1].slope == -4.0);
	cr_expect(rows.row[1].first == 40 && rows.row[1].last == 0);
	trend_rows_release(&rows);
}

/* A restarted recorder does not know earlier blocks. */
Test(fleet_find_trends, process_that_is_recorded_again_does_not_shrink)
{
	const struct told told[] = {
		{ 1, 1, 0 * S, { 100, -1, NONE }, 1 }, { 1, 1, 10 * S, { 200, -1, NONE }, 1 },
		{ 1, 1, 20 * S, { 0, -1, NONE }, 2 }, { 1, 1, 40 * S, { 200, -1, NONE }, 2 },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 1);
	cr_expect_float_eq(rows.row[0].slope, 10, 1e-12);
	cr_expect_float_eq(rows.row[0].growth, 300, 1e-9);
	cr_expect(rows.row[0].processes == 1 && rows.processes == 1);
	cr_expect(rows.row[0].first == 100 && rows.row[0].last == 400);
	trend_rows_release(&rows);
}

/* One that leaks 1 byte a second for 100 s among many others is no slower, nor are its 100 bytes more. */
Test(fleet_find_trends, process_without_a_group_does_not_affect_its_slope)
{
	struct told told[42];
	struct trend_rows rows;

	for (uint32_t i = 0; i < 42; i++)
		told[i] = (struct told){ 1, i / 2, i % 2 * (i < 2 ? 100 : 10000) * S,
					 { i < 2 ? 100ll * i : -1, 7, NONE } };
	rows = ask(tell(told, 42));
	cr_assert_eq(rows.row_nr, 2);
	cr_expect_eq(rows.row[0].group, 0);
	cr_expect_float_eq(rows.row[0].slope, 1, 1e-12);
	cr_expect_float_eq(rows.row[0].growth, 100, 1e-9);
	cr_expect(rows.row[1].slope == 0 && rows.row[1].growth == 0);
	trend_rows_release(&rows);
}

/* Growth within one second is steeper than a leak that lasts all day, but matters less. */
Test(fleet_find_trends, growth_of_one_second_is_ordered_after_longer_growth)
{
	const struct told told[] = {
		{ 1, 1, 0 * S, { 0, -1, NONE } }, { 1, 1, 1 * S, { 5000, -1, NONE } },
		{ 1, 2, 0 * S, { -1, 0, NONE } }, { 1, 2, 10000 * S, { -1, 10000, NONE } },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_assert_eq(rows.row_nr, 2);
	cr_expect(rows.row[0].group == 1 && rows.row[0].slope == 1.0);
	cr_expect(rows.row[1].group == 0 && rows.row[1].slope == 5000.0);
	trend_rows_release(&rows);
}

Test(fleet_find_trends, single_time_has_no_slope)
{
	const struct told told[] = {
		{ 1, 1, 7 * S, { 1, -1, NONE } }, { 1, 1, 7 * S, { 5, -1, NONE } }, { 1, 2, 8 * S, { 9, -1, NONE } },
	};
	struct trend_rows rows = ask(tell(told, ARRAY_SIZE(told)));

	cr_expect(rows.row_nr == 1 && rows.processes == 0 && rows.row[0].slope == 0);
	trend_rows_release(&rows);
}

/* The wall clock was set an hour forward between the two; slopes use the clock that cannot be set. */
Test(fleet_find_trends, slopes_are_not_affected_by_setting_the_wall_clock)
{
	const struct told told[] = {
		{ 1, 1, 10 * S, { 100, -1, NONE } }, { 1, 1, 20 * S, { 150, -1, NONE } },
	};
	struct told_fleet *fleet = tell(told, ARRAY_SIZE(told));
	struct trend_rows rows;

	fleet->snapshot[0].time_ns = 1000 * S;
	fleet->snapshot[1].time_ns = 4610 * S;
	rows = ask(fleet);
	cr_assert_eq(rows.row_nr, 1);
	cr_expect_eq(rows.row[0].slope, 5.0);
	trend_rows_release(&rows);
}

/* Times and sizes that no program has. */
Test(fleet_find_trends, sums_that_overflow_are_an_error)
{
	const struct told times[] = {
		{ 1, 1, INT64_MIN, { INT64_MAX - 9, -1, NONE } }, { 1, 1, 0, { 5, -1, NONE } },
		{ 1, 1, INT64_MAX, { INT64_MAX - 9, -1, NONE } },
	};
	const struct told sizes[] = {
		{ 1, 1, 0, { INT64_MAX, -1, NONE } }, { 1, 2, 0, { INT64_MAX, -1, NONE } },
	};
	struct trend_rows rows = {};
	struct reason why = { "" };

	cr_expect_eq(fleet_find_trends(&tell(times, ARRAY_SIZE(times))->question, &rows, &why), -ERANGE);
	cr_expect_eq(fleet_find_trends(&tell(sizes, ARRAY_SIZE(sizes))->question, &rows, &why), -ERANGE);
	cr_expect(strstr(why.text, "; the largest snapshot is one of h001: --where 'path!=told.snap' leaves it out"),
		  "%s", why.text);
	cr_expect_null(rows.row);
}

/* Blocks freed in a gap still look live, so they pile up: that is no growth. */
Test(fleet_find_trends, processes_with_gaps_are_left_out)
{
	struct told told[9];
	struct trend_rows rows;

	for (uint32_t i = 0; i < 9; i++)
		told[i] = (struct told){ 1 + i / 6, i / 3, i % 3 * S, { 10 + i % 3 * (i / 3), -1, NONE },
					 .has_gap_blocks = i == 2 || i == 8 };
	rows = ask(tell(told, 9));
	cr_assert_eq(rows.row_nr, 1);
	cr_expect(rows.processes == 1 && rows.processes_in_gaps == 2);
	cr_expect(rows.row[0].processes == 1 && rows.row[0].first == 10 && rows.row[0].last == 12);
	cr_expect_float_eq(rows.row[0].slope, 1, 1e-12);
	trend_rows_release(&rows);
}
