// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine_data.h"
#include "render.h"
#include "snapshot.h"

/* Key types by name, where tracebacks start, ages, and sums that do not fit. */

Test(engine_options, parse_key_types_by_name)
{
	struct reason why = {};
	enum key_type key_type;

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		cr_expect_eq(key_type_parse(key_type_name(i), &key_type, &why), 0);
		cr_expect_eq(key_type, i);
	}
	cr_expect_eq(key_type_parse("line", &key_type, &why), -EINVAL);
	cr_expect_str_eq(why.text,
			 "unknown key type \"line\"; there are lineno, filename, traceback, "
			 "function, object, domain, process, size-class, age, thread");
	cr_expect_eq(key_type_parse("", &key_type, NULL), -EINVAL);
	cr_expect_eq(key_type, KEY_TYPE_NR - 1, "outputs are untouched on failure");
}

Test(engine_options, list_the_valid_words_after_a_long_wrong_one)
{
	char word[1000] = "";
	enum key_type key_type;
	enum sort_order order;
	struct reason why;

	memset(word, 'x', sizeof(word) - 1);
	cr_expect_eq(key_type_parse(word, &key_type, &why), -EINVAL);
	cr_expect(strstr(why.text, "there are lineno"), "%s", why.text);
	cr_expect_eq(sort_order_parse(word, &order, &why), -EINVAL);
	cr_expect(strstr(why.text, "there are abs, growth, shrink"), "%s", why.text);
	cr_expect_null(renderer_find(word, &why));
	cr_expect(strstr(why.text, "none of text, json, folded"), "%s", why.text);
}

Test(engine_options, refuse_a_key_type_out_of_range)
{
	struct data_snapshot data = data_snapshot(NULL, 0, 0);
	struct engine_options options = { .key_type = KEY_TYPE_NR };
	struct statistics *statistics;

	cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), -EINVAL);
	data_release(&data);
}

static const struct data_trace wrapped[] = {
	/* the same block of code through malloc, new and nothing */
	{ .size = 1, .frame = { { "n.cc", 5, "operator new(unsigned long)" }, { "a.c", 1 } } },
	{ .size = 2, .frame = { { "m.c", 7, "je_malloc" }, { "n.cc", 5, "_Znwm" }, { "a.c", 1 } } },
	{ .size = 4, .frame = { { "a.c", 1 } } },
	/* only leading frames are passed over */
	{ .size = 8, .frame = { { "x.c", 2, "new_item" }, { "m.c", 8, "xmalloc" }, { "a.c", 3 } } },
	/* nothing but wrappers */
	{ .size = 16, .frame = { { "m.c", 9, "malloc" }, { "n.cc", 5, "_Znam" } } },
};

Test(engine_options, start_tracebacks_after_wrappers)
{
	static const char *const skip[] = { "new_*" };
	struct engine_options options = { .key_type = KEY_TRACEBACK };
	struct data_snapshot data = DATA_SNAPSHOT(wrapped);

	DATA_EXPECT("traceback", NULL, data.snapshot, &options, { "n.cc:5 m.c:9", 16, 1 },
		    { "a.c:3 m.c:8 x.c:2", 8, 1 }, { "a.c:1", 7, 3 });
	options.skip = skip;
	options.skip_nr = 1;
	DATA_EXPECT("skip", NULL, data.snapshot, &options, { "n.cc:5 m.c:9", 16, 1 },
		    { "a.c:3", 8, 1 }, { "a.c:1", 7, 3 });
	options.keep_wrappers = true;
	DATA_EXPECT("keep", NULL, data.snapshot, &options, { "n.cc:5 m.c:9", 16, 1 },
		    { "a.c:3 m.c:8 x.c:2", 8, 1 }, { "a.c:1", 4, 1 },
		    { "a.c:1 n.cc:5 m.c:7", 2, 1 }, { "a.c:1 n.cc:5", 1, 1 });
	data_release(&data);
}

Test(engine_options, leave_out_wrappers_for_every_key_type)
{
	struct engine_options options = { .key_type = KEY_LINENO };
	struct data_snapshot data = DATA_SNAPSHOT(wrapped);

	DATA_EXPECT("lineno", NULL, data.snapshot, &options, { "m.c:9", 16, 1 }, { "x.c:2", 8, 1 },
		    { "a.c:1", 7, 3 });
	options.cumulative = true;
	DATA_EXPECT("cumulative", NULL, data.snapshot, &options, { "n.cc:5", 16, 1 },
		    { "m.c:9", 16, 1 }, { "x.c:2", 8, 1 }, { "m.c:8", 8, 1 }, { "a.c:3", 8, 1 },
		    { "a.c:1", 7, 3 });
	options = (struct engine_options){ .key_type = KEY_FILENAME, .keep_wrappers = true };
	DATA_EXPECT("keep", NULL, data.snapshot, &options, { "m.c:0", 18, 2 }, { "x.c:0", 8, 1 },
		    { "a.c:0", 4, 1 }, { "n.cc:0", 1, 1 });
	data_release(&data);
}

Test(engine_options, count_a_skipped_frame_in_a_traceback_that_keeps_it)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "m.c", 1, "malloc" }, { "a.c", 1 } } },
		{ .size = 2, .frame = { { "h.c", 1 }, { "m.c", 1, "xmalloc" }, { "a.c", 1 } } },
	};
	const struct engine_options options = { .cumulative = true };
	struct data_snapshot data = DATA_SNAPSHOT(traces);

	DATA_EXPECT("cumulative", NULL, data.snapshot, &options, { "a.c:1", 3, 2 },
		    { "m.c:1", 2, 1 }, { "h.c:1", 2, 1 });
	data_release(&data);
}

static const struct data_trace aged[] = {
	{ .size = 1, .frame = { { "a.c", 1 } }, .birth_ns = 0 },
	{ .size = 2, .frame = { { "a.c", 1 } }, .birth_ns = 400 },
	{ .size = 4, .frame = { { "a.c", 1 } }, .birth_ns = 900 },
	{ .size = 8, .frame = { { "b.c", 1 } }, .birth_ns = 1000 },
	{ .size = 16, .frame = { { "a.c", 1 } }, .birth_ns = 1001 },
	{ .size = 32, .frame = { { "a.c", 1 } }, .birth_ns = UINT64_MAX },
};

Test(engine_options, leave_out_blocks_below_min_age)
{
	static const struct {
		uint64_t min_age_ns;
		int64_t size;
		size_t rows;
	} rows[] = {
		{ 0, 63, 2 },	{ 1, 7, 1 },	{ 100, 7, 1 },	      { 101, 3, 1 },
		{ 600, 3, 1 },	{ 601, 1, 1 },	{ 1000, 1, 1 },	      { 1001, 0, 0 },
		{ UINT64_MAX, 0, 0 },
	};
	struct data_snapshot data = data_snapshot(aged, ARRAY_SIZE(aged), 1000);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct engine_options options = { .select.min_age_ns = rows[i].min_age_ns };
		struct statistics *statistics;

		cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
		cr_expect_eq(statistics->total.size, rows[i].size, "row %zu: %ld", i,
			     statistics->total.size);
		cr_expect_eq(statistics->statistic_nr, rows[i].rows, "row %zu", i);
		statistics_free(statistics);
	}
	data_release(&data);
}

Test(engine_options, refuse_min_age_without_birth_times)
{
	const struct engine_options options = { .select.min_age_ns = 1 };
	struct data_snapshot data = data_snapshot(aged, ARRAY_SIZE(aged), 0);
	struct statistics *statistics;
	struct reason why = {};

	cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, &why), -ENODATA);
	cr_expect(strstr(why.text, "birth"), "%s", why.text);
	data_release(&data);
}

#define SIZE(filename, size) { (size), { { (filename), 1 } } }

Test(engine_options, refuse_sums_that_overflow)
{
	static const struct {
		const char *what;
		struct data_trace traces[2];
		bool cumulative;
		int err;
	} rows[] = {
		{ "the most", { SIZE("a.c", INT64_MAX - 1), SIZE("a.c", 1) }, false, 0 },
		{ "one group", { SIZE("a.c", INT64_MAX), SIZE("a.c", 1) }, false, -ERANGE },
		{ "one block", { SIZE("a.c", 1ull << 63) }, false, -ERANGE },
		{ "the total", { SIZE("a.c", INT64_MAX), SIZE("b.c", 1) }, false, -ERANGE },
		{ "a wrap to 0", { SIZE("a.c", UINT64_MAX), SIZE("a.c", 1) }, false, -ERANGE },
		{ "recursion", { { 1ull << 62, { { "a.c", 1 }, { "a.c", 1 } } } }, true, -ERANGE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct engine_options options = { .cumulative = rows[i].cumulative };
		struct data_snapshot data = DATA_SNAPSHOT(rows[i].traces);
		struct statistics *statistics = NULL;
		struct reason why = {};

		cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, &why),
			     rows[i].err, "%s: %s", rows[i].what, why.text);
		cr_expect_eq(!!why.text[0], !!rows[i].err, "%s", rows[i].what);
		statistics_free(statistics);
		data_release(&data);
	}
}

Test(engine_options, allow_a_diff_as_large_as_a_snapshot)
{
	static const struct data_trace traces[] = { SIZE("a.c", INT64_MAX) };
	const struct engine_options options = {};
	struct data_snapshot data = DATA_SNAPSHOT(traces), empty = data_snapshot(NULL, 0, 0);

	DATA_EXPECT("gone", data.snapshot, empty.snapshot, &options,
		    { "a.c:1", 0, 0, -INT64_MAX, -1 });
	DATA_EXPECT("new", empty.snapshot, data.snapshot, &options,
		    { "a.c:1", INT64_MAX, 1, INT64_MAX, 1 });
	data_release(&data);
	data_release(&empty);
}

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
