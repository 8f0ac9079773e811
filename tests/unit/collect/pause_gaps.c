// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sums of the gaps of a recording, from any time to any other. */
#include "collect/budget/budget.h"

#include <criterion/criterion.h>

#include "base/array.h"
#include "collect/build/build_metadata.h"
#include "collect/target/target.h"
#include "snapshot_sample.h"

static void add_gap(struct pausing *pausing, uint64_t start_ns, uint64_t end_ns)
{
	cr_assert_eq(pausing_make_room(pausing), 0);
	pausing->open_ns = start_ns;
	pausing_close_gap(pausing, end_ns);
}

static void expect_sum(const struct pausing *pausing, uint64_t start_ns, uint64_t now_ns, uint64_t nr, uint64_t length_ns)
{
	struct gaps_sum sum = pausing_sum(pausing, start_ns, now_ns);

	cr_expect(sum.nr == nr && sum.length_ns == length_ns, "from %lu to %lu: %lu gaps, %lu ns", start_ns, now_ns, sum.nr,
		  sum.length_ns);
}

Test(pause_gaps, may_be_known_afterwards)
{
	struct pausing pausing = {};

	add_gap(&pausing, 100, 200);
	cr_assert_eq(pausing_add_past(&pausing, 200, 250), 0, "longer");
	cr_assert_eq(pausing_add_past(&pausing, 300, 400), 0, "another");
	cr_assert_eq(pausing_add_past(&pausing, 390, 420), 0, "they overlap");
	expect_sum(&pausing, 0, 1000, 2, 270);
	add_gap(&pausing, 430, 440);
	expect_sum(&pausing, 0, 1000, 3, 280);
	pausing.open_ns = 500;
	cr_assert_eq(pausing_add_past(&pausing, 450, 600), 0, "in an open one");
	expect_sum(&pausing, 0, 1000, 4, 780);
	pausing_release(&pausing);
}

Test(pause_gaps, are_cut_at_both_ends)
{
	struct pausing pausing = {};

	expect_sum(&pausing, 0, 1000, 0, 0);
	add_gap(&pausing, 100, 110);
	add_gap(&pausing, 200, 230);
	add_gap(&pausing, 300, 301);
	expect_sum(&pausing, 0, 1000, 3, 41);
	expect_sum(&pausing, 0, 300, 2, 40);
	expect_sum(&pausing, 0, 205, 2, 15);
	expect_sum(&pausing, 105, 1000, 3, 36);
	expect_sum(&pausing, 110, 1000, 2, 31);
	expect_sum(&pausing, 210, 220, 1, 10);
	expect_sum(&pausing, 240, 250, 0, 0);
	expect_sum(&pausing, 400, 300, 0, 0);
	pausing_release(&pausing);
}

/* Gaps of a shared budget may be older than a process. */
Test(pause_gaps, an_open_one_counts_until_now)
{
	struct pausing pausing = {};

	add_gap(&pausing, 100, 110);
	pausing.open_ns = 500;
	expect_sum(&pausing, 0, 500, 1, 10);
	expect_sum(&pausing, 0, 507, 2, 17);
	expect_sum(&pausing, 503, 507, 1, 4);
	pausing_release(&pausing);
}

/* The oldest are kept as a sum. */
Test(pause_gaps, are_the_same_for_every_gap_that_is_kept)
{
	struct pausing pausing = {};
	uint64_t nr = GAPS_MAX + GAPS_MAX / 4;

	for (uint64_t i = 1; i <= nr; i++)
		add_gap(&pausing, 10000 * i, 10000 * i + i);
	cr_assert_lt(pausing.gap_nr, nr);
	expect_sum(&pausing, 0, 10000 * nr + nr, nr, nr * (nr + 1) / 2);
	expect_sum(&pausing, 10000 * nr, 10000 * nr + nr, 1, nr);
	expect_sum(&pausing, 10000 * (nr - 2) + nr, 10000 * (nr + 1), 2, nr + nr - 1);
	pausing_release(&pausing);
}

/* Each time is in one gap of the snapshot only, whichever probes paused. */
Test(pause_gaps, that_overlap_are_described_once)
{
	static const struct snap_gap expected[] = { { 150, 200 }, { 300, 500 }, { 600, 650 }, { 650, 700 }, { 900, 1000 } };
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct pausing shared = {};
	struct target target = { .life.started_ns = 150, .budget.shared = &shared };
	const struct snapshot_tables *tables;
	struct snapshot *snapshot;

	add_gap(&target.budget.own, 100, 200);
	add_gap(&target.budget.own, 300, 500);
	add_gap(&target.budget.own, 620, 700);
	add_gap(&shared, 120, 180);
	add_gap(&shared, 350, 400);
	add_gap(&shared, 600, 650);
	target.budget.own.open_ns = 900;
	shared.open_ns = 950;
	cr_assert_eq(describe_gaps(builder, &target, 1000), 0);
	snapshot = sample_finish(builder);
	tables = snapshot__tables(snapshot);
	cr_assert_eq(tables->gap_nr, ARRAY_SIZE(expected));
	cr_assert_arr_eq(tables->gap, expected, sizeof(expected));
	snapshot__close(snapshot);
	pausing_release(&target.budget.own);
	pausing_release(&shared);
}
