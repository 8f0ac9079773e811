// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>

#include "base/array.h"
#include "engine.h"
#include "snapshot.h"

/* f allocated 5 blocks of 50 bytes in all, 2 of them temporary; g, called by f, allocated 1 that is live. */
static struct snapshot *make(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_CHURN);
	struct snap_frame f = { .lineno = 1 }, g = { .lineno = 2 };
	struct snapshot *snapshot;
	uint32_t frame[2], of_f, of_g;

	cr_assert(!snapshot_builder__string(builder, "f.c", &f.filename) &&
		  !snapshot_builder__string(builder, "g.c", &g.filename) &&
		  !snapshot_builder__frame(builder, &g, &frame[0]) &&
		  !snapshot_builder__frame(builder, &f, &frame[1]) &&
		  !snapshot_builder__traceback(builder, frame, 2, 2, 0, &of_g) &&
		  !snapshot_builder__traceback(builder, &frame[1], 1, 1, 0, &of_f));
	cr_assert(!snapshot_builder__churn(builder, of_f, &(struct snap_churn){ 5, 50, 2, 20 }) &&
		  !snapshot_builder__churn(builder, of_g, &(struct snap_churn){ 1, 7, 0, 0 }) &&
		  !snapshot_builder__trace(builder, &(struct snap_trace){ .size = 7,
									  .traceback = of_g }));
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

static void expect(const struct engine_options *options, int64_t size, int64_t count, size_t rows)
{
	struct snapshot *snapshot = make();
	struct statistics *statistics;
	struct reason why = { "" };

	cr_assert_eq(snapshot_statistics(snapshot, options, &statistics, &why), 0, "%s", why.text);
	cr_expect_eq(statistics->measure, options->measure);
	cr_expect_eq(statistics->total.size, size, "size %jd", (intmax_t)statistics->total.size);
	cr_expect_eq(statistics->total.count, count);
	cr_expect_eq(statistics->statistic_nr, rows);
	statistics_free(statistics);
	snapshot__close(snapshot);
}

Test(engine_measure, selects_live_allocated_or_temporary_bytes)
{
	const struct filter only_g = { .inclusive = true, .filename_pattern = "g.*" };

	expect(&(struct engine_options){ .measure = MEASURE_LIVE }, 7, 1, 1);
	expect(&(struct engine_options){ .measure = MEASURE_ALLOCATED }, 57, 6, 2);
	expect(&(struct engine_options){ .measure = MEASURE_TEMPORARY }, 20, 2, 1);
	expect(&(struct engine_options){ .measure = MEASURE_ALLOCATED, .key_type = KEY_TRACEBACK },
	       57, 6, 2);
	expect(&(struct engine_options){ .measure = MEASURE_ALLOCATED,
					 .select = { .filter = &only_g, .filter_nr = 1 } }, 7, 1, 1);
}

Test(engine_measure, applies_to_differences)
{
	struct engine_options options = { .measure = MEASURE_ALLOCATED };
	struct snapshot *snapshot = make();
	struct statistics *statistics;

	cr_assert_eq(snapshot_compare(snapshot, snapshot, &options, &statistics, NULL), 0);
	cr_expect_eq(statistics->total.size, 57);
	cr_expect_eq(statistics->total_diff.size, 0);
	statistics_free(statistics);
	snapshot__close(snapshot);
}

Test(engine_measure, refuses_keys_and_selections_by_block)
{
	const struct filter domain = { .has_domain = true };
	const struct engine_options refused[] = {
		{ .key_type = KEY_DOMAIN }, { .key_type = KEY_AGE }, { .key_type = KEY_THREAD },
		{ .key_type = KEY_SIZE_CLASS }, { .key_type = KEY_PROCESS },
		{ .select = { .min_size = 1 } }, { .select = { .has_max_size = true } },
		{ .select = { .min_age_ns = 1 } }, { .select = { .max_age_ns = 1 } },
		{ .select = { .thread = 1 } }, { .select = { .filter = &domain, .filter_nr = 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct engine_options options = refused[i];
		struct reason why = { "" };

		cr_expect_eq(engine_options_check(&options, &why), 0, "%zu: %s", i, why.text);
		options.measure = MEASURE_TEMPORARY;
		cr_expect_eq(engine_options_check(&options, &why), -EINVAL, "%zu", i);
		cr_expect_str_eq(why.text, "measure \"temporary\" is counted by traceback, and not by "
					   "domain, process, size, age, thread or gap");
	}
}

Test(engine_measure, is_parsed_by_name)
{
	struct reason why = { "" };
	enum measure measure = MEASURE_NR;

	for (enum measure i = 0; i < MEASURE_NR; i++) {
		cr_expect_eq(measure_parse(measure_name(i), &measure, &why), 0);
		cr_expect_eq(measure, i);
	}
	cr_expect_eq(measure_parse("lived", &measure, &why), -EINVAL);
	cr_expect_str_eq(why.text, "unknown measure \"lived\"; there are live, allocated, temporary");
}

Test(engine_measure, refuses_a_snapshot_without_churn)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct engine_options options = { .measure = MEASURE_ALLOCATED };
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	struct snapshot *snapshot;

	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_expect_eq(snapshot_statistics(snapshot, &options, &statistics, &why), -ENODATA);
	cr_expect_str_eq(why.text, "the snapshot does not say what was allocated");
	snapshot__close(snapshot);
}
