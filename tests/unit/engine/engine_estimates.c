// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Snapshots of samples: sums of weights, and how far they may be off. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/estimate.h"
#include "engine_data.h"
#include "snapshot.h"

TestSuite(engine_estimates, .timeout = 600);

#define A { { "a.c", 1 } }
#define B { { "b.c", 1 } }

static struct statistics *ask(const struct snapshot *old, const struct snapshot *new,
			      const struct engine_options *options)
{
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	int err = old ? snapshot_compare(old, new, options, &statistics, &why) :
			snapshot_statistics(new, options, &statistics, &why);

	cr_assert_eq(err, 0, "%s", why.text);
	return statistics;
}

static void expect_interval(const char *what, const struct interval *got, int64_t low, int64_t high)
{
	cr_expect(got->low == low && got->high == high, "%s: %jd to %jd, not %jd to %jd", what,
		  (intmax_t)got->low, (intmax_t)got->high, (intmax_t)low, (intmax_t)high);
}

/* The expected numbers are Wilson's interval for 4 of 40. */
Test(engine_estimates, are_sums_of_weights)
{
	const struct data_trace traces[] = {
		{ 100, A, .times = 4, .weight = 10 }, { 1000, B, .times = 2, .weight = 4 },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *got = ask(NULL, data.snapshot, &(struct engine_options){});
	const struct statistic *row = got->statistic;

	DATA_EXPECT("rows", NULL, data.snapshot, &(struct engine_options){}, { "b.c:1", 8000, 8 },
		    { "a.c:1", 4000, 40 });
	cr_assert(row[0].estimate && row[1].estimate && got->total_estimate);
	cr_expect(row[0].estimate->samples == 2 && row[1].estimate->samples == 4);
	expect_interval("count of 40", &row[1].estimate->count, 17, 98);
	expect_interval("size of 40", &row[1].estimate->size, 1628, 9829);
	cr_expect(row[1].estimate->has_count && !row[0].estimate->has_count, "two samples tell no count");
	cr_expect(got->total.size == 12000 && got->total.count == 48);
	cr_expect_eq(got->total_estimate->samples, 6);
	statistics_free(got);
	data_release(&data);
}

Test(engine_estimates, of_whole_blocks_are_exact)
{
	const struct data_trace traces[] = { { 100, A, .times = 3, .weight = 1 }, { 7, B, .weight = 1 } };
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *got = ask(NULL, data.snapshot, &(struct engine_options){});

	cr_assert(got->total_estimate);
	expect_interval("size", &got->total_estimate->size, 307, 307);
	expect_interval("count", &got->statistic[0].estimate->count, 3, 3);
	statistics_free(got);
	data_release(&data);
}

Test(engine_estimates, are_absent_when_every_block_was_recorded)
{
	const struct data_trace traces[] = { { 100, A } };
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *got = ask(NULL, data.snapshot, &(struct engine_options){});

	cr_expect(!got->total_estimate && !got->statistic[0].estimate);
	statistics_free(got);
	data_release(&data);
}

/* The interval never begins below the bytes that were seen, however uncertain the estimate is. */
Test(engine_estimates, are_never_below_the_sampled_bytes)
{
	const struct data_trace traces[] = { { 16, A, .times = 4, .weight = 32768.5 } };
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *got = ask(NULL, data.snapshot, &(struct engine_options){});

	cr_expect(got->total.size == 4 * 524296 && got->total.count == 4 * 32768 + 2);
	cr_expect(got->total_estimate->has_count && got->total_estimate->count.low > 40000);
	cr_expect_geq(got->total_estimate->size.low, 64);
	statistics_free(got);
	data_release(&data);
}

/* A block that counts twice in a row is there twice, or not at all. */
Test(engine_estimates, of_recursion_count_a_block_twice_with_the_same_relative_error)
{
	const struct data_trace twice[] = { { 100, { { "a.c", 1 }, { "a.c", 1 } }, .times = 4, .weight = 10 } };
	const struct data_trace once[] = { { 200, A, .times = 4, .weight = 10 } };
	struct data_snapshot a = DATA_SNAPSHOT(twice), b = DATA_SNAPSHOT(once);
	struct statistics *got = ask(NULL, a.snapshot, &(struct engine_options){ .cumulative = true });
	struct statistics *want = ask(NULL, b.snapshot, &(struct engine_options){});

	cr_assert_eq(got->statistic_nr, 1);
	cr_expect(got->statistic->cost.size == 8000 && got->statistic->cost.count == 80);
	cr_expect(got->total.size == 4000 && got->total.count == 40);
	cr_expect_eq(got->statistic->estimate->samples, 4);
	expect_interval("size", &got->statistic->estimate->size, want->statistic->estimate->size.low,
			want->statistic->estimate->size.high);
	expect_interval("count of 80", &got->statistic->estimate->count, 33, 196);
	statistics_free(got);
	statistics_free(want);
	data_release(&a);
	data_release(&b);
}

#define PROCESS "pid", "7", "boot_id", "b", "start_time_ticks", "9", "monotonic_ns", "20000000000"

static struct data_snapshot of_process(const struct data_trace *trace, size_t nr)
{
	return data_snapshot_with(trace, nr, (const char *const[]){ PROCESS, NULL });
}

#define SAMPLE(size_, frame_, address_) \
	{ size_, frame_, .birth_ns = (address_) / 16, .address = (address_), .weight = 10 }

static const struct data_trace before[] = {
	SAMPLE(100, A, 0x1000), SAMPLE(100, A, 0x2000), SAMPLE(100, B, 0x3000),
};
static const struct data_trace after[] = {
	SAMPLE(100, A, 0x1000), SAMPLE(100, A, 0x2000), SAMPLE(100, A, 0x4000), SAMPLE(100, B, 0x3000),
};

/* A block in both is the same sample: the error of the difference comes from the one new block. */
Test(engine_estimates, of_differences_do_not_count_the_error_of_common_samples)
{
	struct data_snapshot old = of_process(before, ARRAY_SIZE(before));
	struct data_snapshot new = of_process(after, ARRAY_SIZE(after));
	struct data_snapshot one = DATA_SNAPSHOT(((struct data_trace[]){ { 100, A, .weight = 10 } }));
	struct statistics *got = ask(old.snapshot, new.snapshot, &(struct engine_options){});
	struct statistics *want = ask(NULL, one.snapshot, &(struct engine_options){});
	const struct interval *size = &want->total_estimate->size;

	cr_assert_eq(got->statistic_nr, 2);
	cr_expect(got->statistic[0].diff.size == 1000 && got->statistic[0].diff.count == 10);
	expect_interval("a.c", &got->statistic[0].estimate->size_diff, size->low, size->high);
	expect_interval("b.c", &got->statistic[1].estimate->size_diff, 0, 0);
	expect_interval("b.c", &got->statistic[1].estimate->count_diff, 0, 0);
	expect_interval("total", &got->total_estimate->size_diff, size->low, size->high);
	cr_expect(got->total_estimate->samples == 4 && got->total_estimate->old_samples == 3);
	cr_expect_gt(got->statistic[1].estimate->size.high, 1000);
	statistics_free(got);
	statistics_free(want);
	data_release(&old);
	data_release(&new);
	data_release(&one);
}

/* The snapshots lack the metadata that makes two blocks the same, or are of two processes. */
Test(engine_estimates, of_differences_between_unrelated_snapshots_count_all_errors)
{
	static const char *const others[][9] = {
		{ "pid", "8", "boot_id", "b", "start_time_ticks", "9", NULL },
		{ "pid", "7", "boot_id", "b", NULL },
		{ PROCESS, NULL },
	};
	struct data_snapshot old = of_process(before, ARRAY_SIZE(before));
	struct data_trace moved[] = { SAMPLE(100, A, 0x1000) };

	moved[0].birth_ns++;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct data_snapshot new = i < 2 ? data_snapshot_with(before, 3, others[i]) :
						   data_snapshot_with(moved, 1, others[i]);
		struct statistics *got = ask(old.snapshot, new.snapshot, &(struct engine_options){});

		for (size_t k = 0; k < got->statistic_nr; k++) {
			const struct interval *diff = &got->statistic[k].estimate->size_diff;

			cr_expect(diff->low < got->statistic[k].diff.size - 1000, "%zu", i);
			cr_expect(i == 2 || diff->high > 1000, "%zu", i);
		}
		statistics_free(got);
		data_release(&new);
	}
	data_release(&old);
}

/* A block that grew older is another group's, but still no news to the total. */
Test(engine_estimates, of_differences_by_age_keep_the_total_exact)
{
	const struct data_trace young[] = { SAMPLE(100, A, 0x1000) };
	static const char *const times[] = { "pid", "7", "boot_id", "b", "start_time_ticks", "9",
					     "monotonic_ns", "300", NULL };
	struct data_snapshot old = data_snapshot_with(young, 1, times);
	struct data_snapshot new = of_process(young, 1);
	struct statistics *got = ask(old.snapshot, new.snapshot,
				     &(struct engine_options){ .key_type = KEY_AGE });

	cr_assert_eq(got->statistic_nr, 2);
	for (size_t i = 0; i < 2; i++) {
		const struct interval *diff = &got->statistic[i].estimate->size_diff;

		cr_expect_lt(diff->low, diff->high);
	}
	expect_interval("total", &got->total_estimate->size_diff, 0, 0);
	statistics_free(got);
	data_release(&old);
	data_release(&new);
}

Test(engine_estimates, of_differences_between_sampled_and_complete_snapshots_are_right)
{
	struct data_snapshot all = DATA_SNAPSHOT(((struct data_trace[]){ { 100, A, .times = 30 } }));
	struct data_snapshot few = DATA_SNAPSHOT(((struct data_trace[]){ { 100, A, .times = 4, .weight = 10 } }));
	struct statistics *got = ask(all.snapshot, few.snapshot, &(struct engine_options){});
	const struct estimate *estimate = got->statistic[0].estimate;

	cr_expect(got->total.count == 40 && got->total_diff.count == 10);
	expect_interval("now", &estimate->count, 17, 98);
	expect_interval("difference", &estimate->count_diff, -13, 68);
	statistics_free(got);
	got = ask(few.snapshot, all.snapshot, &(struct engine_options){});
	expect_interval("now", &got->total_estimate->count, 30, 30);
	expect_interval("difference", &got->total_estimate->count_diff, -68, 13);
	statistics_free(got);
	data_release(&all);
	data_release(&few);
}

static const struct {
	struct data_trace trace;
	int err;
} large[] = {
	{ { 1, A, .weight = 0x1p61 }, 0 },
	{ { 1, A, .weight = 0x1p63 }, -ERANGE },
	{ { 0, A, .weight = 0x1p63 }, -ERANGE },
	{ { 4, A, .weight = 0x1p61 }, -ERANGE },
	{ { 1ull << 62, A, .weight = 2.5 }, -ERANGE },
	{ { UINT64_MAX, A, .weight = 0x1.fffffffffffffp1023 }, -ERANGE },
	{ { 0, A, .weight = 0x1.fffffffffffffp1023 }, -ERANGE },
	{ { 1, A, .times = 3, .weight = 0x1p61 }, 0 },
	{ { 1, A, .times = 4, .weight = 0x1p61 }, -ERANGE },
};

/* In rates: without a sample, with 4, with 400. Poisson's upper ends are 3.7, 6.2 and 41 above these. */
Test(engine_estimates, of_few_samples_may_miss_much)
{
	static const struct {
		int samples;
		double least, most;
	} cases[] = { { 0, 3.7, 6 }, { 4, 5, 8 }, { 400, 39, 44 } };
	const double rate = 512 << 10;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct moments sum = {};
		double missed;

		for (int k = 0; k < cases[i].samples; k++)
			moments_add_block(&sum, 64, rate / 64);
		missed = moments_missed(&sum, rate) / rate;
		cr_expect(missed > cases[i].least && missed < cases[i].most, "%d samples: %f", cases[i].samples, missed);
	}
}

Test(engine_estimates, that_are_too_large_are_an_error)
{
	for (size_t i = 0; i < ARRAY_SIZE(large); i++) {
		struct data_snapshot data = data_snapshot(&large[i].trace, 1, 0);
		struct statistics *statistics = NULL;
		struct reason why = { "" };

		cr_expect_eq(snapshot_statistics(data.snapshot, &(struct engine_options){}, &statistics,
						 &why), large[i].err, "%zu: %s", i, why.text);
		statistics_free(statistics);
		data_release(&data);
	}
}

static const struct {
	struct engine_options options;
	const char *first;
} keys[] = {
	{ { .key_type = KEY_SIZE_CLASS }, "[[512 B, 1 KiB)]" },
	{ { .key_type = KEY_DOMAIN }, "[0]" },
	{ { .key_type = KEY_THREAD }, "[5]" },
	{ { .key_type = KEY_FILENAME }, "a.c:0" },
	{ { .select = { .min_size = 1000 } }, "a.c:1" },
};

/* The estimate of a group equals the estimate of its samples, for every key type. */
Test(engine_estimates, are_right_for_every_key_type)
{
	const struct data_trace traces[] = {
		{ 1000, A, .times = 4, .weight = 10, .thread = 5 }, { 1, B, .weight = 2, .domain = 1, .thread = 6 },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	char text[512];

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct statistics *got = ask(NULL, data.snapshot, &keys[i].options);

		cr_expect_str_eq(data_traceback_text(text, &got->statistic[0]), keys[i].first);
		cr_expect_eq(got->statistic[0].cost.size, 40000, "%zu", i);
		expect_interval(text, &got->statistic[0].estimate->count, 17, 98);
		statistics_free(got);
	}
	data_release(&data);
}

/* ---- gaps --------------------------------------------------------------------------------- */

static struct snapshot *with_gap(unsigned int columns)
{
	struct snapshot_builder *builder = snapshot_builder__new(columns);
	const struct snap_trace trace[] = {
		{ .size = 1, .birth_ns = 99, .weight = 2 }, { .size = 10, .birth_ns = 100, .weight = 2 },
		{ .size = 100, .birth_ns = 150, .weight = 2 }, { .size = 1000, .weight = 2 },
	};
	struct snapshot *snapshot = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(trace); i++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace[i]), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 50, 60), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 100, 120), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

Test(engine_estimates, count_blocks_that_lived_through_a_gap)
{
	const struct engine_options all = {}, without = { .select = { .no_gap_blocks = true } };
	struct snapshot *exact = with_gap(SNAP_WITH_BIRTH), *part;
	struct snapshot *sampled = with_gap(SNAP_WITH_BIRTH | SNAP_WITH_WEIGHT);
	struct snapshot *without_births = with_gap(0);
	struct statistics *got;
	struct reason why = { "" };
	struct cost cost;

	cr_expect_eq(snapshot_gap_blocks(exact, &all, &cost, &why), 0);
	cr_expect(cost.size == 1 && cost.count == 1);
	cr_expect_eq(snapshot_gap_blocks(sampled, &all, &cost, &why), 0);
	cr_expect(cost.size == 2 && cost.count == 2);
	cr_expect_eq(snapshot_gap_blocks(exact, &without, &cost, &why), 0);
	cr_expect(cost.size == 0 && cost.count == 0);
	got = ask(NULL, exact, &without);
	cr_expect(got->total.size == 1110 && got->total.count == 3);
	statistics_free(got);
	cr_assert_eq(snapshot_filter_traces(exact, &without, &part, &why), 0);
	cr_expect_eq(snapshot__tables(part)->trace_nr, 3);
	cr_expect_str_eq(snapshot__metadata(part, "filters"), "traces that a program chose");
	cr_expect_eq(snapshot_statistics(without_births, &without, &got, &why), -ENODATA);
	cr_expect_eq(snapshot_gap_blocks(without_births, &all, &cost, &why), 0);
	cr_expect_eq(cost.count, 0);
	snapshot__close(part);
	snapshot__close(exact);
	snapshot__close(sampled);
	snapshot__close(without_births);
}

/* A block that the query leaves out of the new snapshot must be left out of the old one, too, or it seems freed. */
Test(engine_estimates, of_differences_leave_out_the_same_blocks_in_both_snapshots)
{
	static const char *const keys[] = { "pid", "boot_id", "start_time_ticks" };
	const struct engine_options without = { .select = { .no_gap_blocks = true } };
	struct snapshot *snapshot[2];
	struct statistics *got;

	for (int i = 0; i < 2; i++) {
		struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_BIRTH);

		for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
			cr_assert_eq(snapshot_builder__metadata(builder, keys[k], "7"), 0);
		for (uint64_t birth_ns = 10; birth_ns < 30; birth_ns += 10)
			cr_assert_eq(snapshot_builder__trace(builder, &(struct snap_trace){
				.size = birth_ns, .birth_ns = birth_ns }), 0);
		if (i)
			cr_assert_eq(snapshot_builder__gap(builder, 15, 16), 0);
		cr_assert_eq(snapshot_builder__finish(builder, &snapshot[i]), 0);
	}
	got = ask(snapshot[0], snapshot[1], &without);
	cr_expect(got->total.size == 20 && got->total_diff.size == 0);
	statistics_free(got);
	got = ask(snapshot[1], snapshot[0], &without);
	cr_expect(got->total.size == 20 && got->total_diff.size == 0);
	statistics_free(got);
	snapshot__close(snapshot[0]);
	snapshot__close(snapshot[1]);
}

/* ---- what was not recorded between two snapshots ------------------------------------------------------ */

#define AT(ns, start, gaps, sum) \
	((const char *const[]){ "pid", "7", "boot_id", "b", "start_time_ticks", "9", "monotonic_ns", ns, \
				"recording_start_monotonic_ns", start, "gap_count", gaps, "gaps_ns", sum, NULL })

static struct unrecorded unrecorded_of(const char *const *one, const char *const *other)
{
	struct data_snapshot a = data_snapshot_with(before, 1, one), b = data_snapshot_with(before, 1, other);
	struct unrecorded unrecorded = snapshots_unrecorded(a.snapshot, b.snapshot);

	data_release(&a);
	data_release(&b);
	return unrecorded;
}

Test(engine_estimates, gaps_between_two_snapshots_are_those_after_the_first)
{
	struct unrecorded found = unrecorded_of(AT("1000", "0", "2", "50"), AT("3000", "0", "5", "90"));

	cr_expect(found.gap_nr == 3 && found.ns == 40 && found.of_ns == 2000 && !found.is_other_recording);
	found = unrecorded_of(AT("3000", "0", "5", "90"), AT("1000", "0", "2", "50"));
	cr_expect(found.gap_nr == 3 && found.ns == 40 && found.of_ns == 2000, "in the other order");
	found = unrecorded_of(AT("1000", "0", "2", "50"), AT("3000", "0", "2", "90"));
	cr_expect(found.gap_nr == 0 && found.ns == 40, "the gap of the first snapshot goes on");
	found = unrecorded_of(AT("1000", "0", "2", "50"), AT("3000", "0", "2", "50"));
	cr_expect(found.gap_nr == 0 && found.ns == 0 && found.of_ns == 0);
}

Test(engine_estimates, time_between_two_recordings_is_unrecorded)
{
	struct unrecorded found = unrecorded_of(AT("1000", "0", "0", "0"), AT("3000", "1200", "1", "30"));

	cr_expect(found.gap_nr == 2 && found.ns == 230 && found.of_ns == 2000 && found.is_other_recording);
}

Test(engine_estimates, nothing_is_unrecorded_between_different_processes)
{
	const char *const other[] = { "pid", "8", "boot_id", "b", "start_time_ticks", "9", "monotonic_ns", "3000",
				      "gap_count", "5", "gaps_ns", "90", NULL };
	struct unrecorded found = unrecorded_of(AT("1000", "0", "2", "50"), other);

	cr_expect(found.gap_nr == 0 && found.ns == 0);
}

/* ---- rates of a budget -------------------------------------------------------------------------- */

#define THINNED(ns, thinned) \
	((const char *const[]){ PROCESS, "recording_start_monotonic_ns", "1", "sample_bytes_most", ns, "thinned_ns", \
				thinned, NULL })

/* Blocks of weight 1, and a rate of 1000 bytes that gave no sample of theirs: there may be some. */
Test(engine_estimates, include_blocks_that_a_budget_may_have_missed)
{
	static const struct data_trace whole[] = { { 100, A, .weight = 1 }, { 100, A, .weight = 1 } };
	struct data_snapshot one = data_snapshot_with(whole, 2, THINNED("1000", "5"));
	struct statistics *got = ask(NULL, one.snapshot, &(struct engine_options){});

	cr_assert_eq(got->statistic_nr, 1);
	cr_expect(got->statistic->cost.size == 200 && got->statistic->cost.count == 2);
	cr_expect_eq(got->statistic->estimate->size.low, 200);
	cr_expect(got->statistic->estimate->size.high > 200 + 4000 && got->statistic->estimate->size.high < 200 + 6000);
	cr_expect(got->statistic->estimate->count.high > 2 + 40 && got->statistic->estimate->count.high < 2 + 60);
	statistics_free(got);
	data_release(&one);
}

/* In a difference the second snapshot has missed nothing new if only the time before the first was sampled. */
Test(engine_estimates, of_differences_after_a_budget_took_samples_are_narrower)
{
	static const struct data_trace whole[] = { { 100, A, .weight = 1 }, { 100, A, .weight = 1 } };
	struct data_snapshot old = data_snapshot_with(whole, 1, THINNED("1000", "5"));
	struct data_snapshot later = data_snapshot_with(whole, 2, THINNED("1000", "5"));
	struct data_snapshot sampled = data_snapshot_with(whole, 2, THINNED("1000", "9"));
	struct statistics *a = ask(old.snapshot, later.snapshot, &(struct engine_options){});
	struct statistics *b = ask(old.snapshot, sampled.snapshot, &(struct engine_options){});

	cr_expect_eq(a->statistic->diff.size, 100);
	cr_expect_lt(a->statistic->estimate->size_diff.high, b->statistic->estimate->size_diff.high);
	statistics_free(a);
	statistics_free(b);
	data_release(&old);
	data_release(&later);
	data_release(&sampled);
}
