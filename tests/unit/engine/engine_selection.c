// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sizes, ages and threads; the orders of a diff; sums of many traces; traceback_read(). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine_data.h"
#include "snapshot.h"

#define NOW 1000

/* Each size is a bit of its own, so a sum of sizes shows which traces are in it. */
static const struct data_trace traces[] = {
	{ .size = 0, .frame = { { "a.c", 1 } }, .birth_ns = 0, .thread = 7 },
	{ .size = 1, .frame = { { "a.c", 1 } }, .birth_ns = 0, .thread = 7 },
	{ .size = 2, .frame = { { "a.c", 1 } }, .birth_ns = 500, .thread = 8, .domain = 1 },
	{ .size = 4, .frame = { { "b.c", 1 } }, .birth_ns = 900, .thread = 7 },
	{ .size = 8, .frame = { { "b.c", 1 } }, .birth_ns = 1000, .thread = 8, .domain = 1 },
	{ .size = 16, .frame = { { "a.c", 1 } }, .birth_ns = 2000, .thread = 9 },
};

static const struct filter of_b[] = { { .inclusive = true, .filename_pattern = "b.c" } };
static const struct filter of_1[] = { { .inclusive = true, .has_domain = true, .domain = 1 } };

static const struct {
	const char *what;
	struct selection select;
	int64_t size, count;
} selections[] = {
	{ "all", {}, 31, 6 },
	{ "min size", { .min_size = 2 }, 30, 4 },
	{ "max size", { .max_size = 4, .has_max_size = true }, 7, 4 },
	{ "max size 0", { .max_size = 0, .has_max_size = true }, 0, 1 },
	{ "max size not asked", { .max_size = 1 }, 31, 6 },
	{ "both sizes", { .min_size = 2, .max_size = 8, .has_max_size = true }, 14, 3 },
	{ "one size", { .min_size = 8, .max_size = 8, .has_max_size = true }, 8, 1 },
	{ "no size", { .min_size = 9, .max_size = 8, .has_max_size = true }, 0, 0 },
	{ "min age", { .min_age_ns = 100 }, 7, 4 },
	{ "min age, one more", { .min_age_ns = 101 }, 3, 3 },
	{ "max age", { .max_age_ns = 100 }, 28, 3 },
	{ "max age, one less", { .max_age_ns = 99 }, 24, 2 },
	{ "both ages", { .min_age_ns = 100, .max_age_ns = 500 }, 6, 2 },
	{ "the oldest", { .min_age_ns = 1000, .max_age_ns = 1000 }, 1, 2 },
	{ "max age of all", { .max_age_ns = UINT64_MAX }, 31, 6 },
	{ "thread", { .thread = 7 }, 5, 3 },
	{ "no such thread", { .thread = 10 }, 0, 0 },
	{ "a filter", { .filter = of_b, .filter_nr = 1 }, 12, 2 },
	{ "a filter and a thread", { .filter = of_b, .filter_nr = 1, .thread = 8 }, 8, 1 },
	{ "a domain and an age", { .filter = of_1, .filter_nr = 1, .min_age_ns = 1 }, 2, 1 },
	{ "everything", { .filter = of_b, .filter_nr = 1, .thread = 7, .min_size = 4, .max_size = 4,
			  .has_max_size = true, .min_age_ns = 100, .max_age_ns = 100 }, 4, 1 },
};

Test(engine_selection, limits_statistics)
{
	struct data_snapshot data = data_snapshot(traces, ARRAY_SIZE(traces), NOW);

	for (size_t i = 0; i < ARRAY_SIZE(selections); i++) {
		for (enum key_type key_type = 0; key_type < KEY_TYPE_NR; key_type++) {
			struct engine_options options = {
				.key_type = key_type,
				.select = selections[i].select,
			};
			struct statistics *statistics;

			cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL),
				     0);
			cr_expect(statistics->total.size == selections[i].size &&
					  statistics->total.count == selections[i].count,
				  "%s, by %s: size %ld, count %ld", selections[i].what,
				  key_type_name(key_type), statistics->total.size,
				  statistics->total.count);
			statistics_free(statistics);
		}
	}
	data_release(&data);
}

Test(engine_selection, limits_the_traces_of_a_snapshot)
{
	struct data_snapshot data = data_snapshot(traces, ARRAY_SIZE(traces), NOW);

	for (size_t i = 0; i < ARRAY_SIZE(selections); i++) {
		struct engine_options options = { .select = selections[i].select };
		struct engine_options all = {};
		struct statistics *statistics;
		struct snapshot *kept;

		cr_assert_eq(snapshot_filter_traces(data.snapshot, &options, &kept, NULL), 0);
		cr_assert_eq(snapshot_statistics(kept, &all, &statistics, NULL), 0);
		cr_expect_eq(statistics->total.size, selections[i].size, "%s", selections[i].what);
		cr_expect_eq(statistics->total.count, selections[i].count, "%s", selections[i].what);
		statistics_free(statistics);
		snapshot__close(kept);
	}
	data_release(&data);
}

Test(engine_selection, refuses_criteria_that_were_not_recorded)
{
	static const struct data_trace bare[] = { { .size = 1 } };
	static const struct {
		struct selection select;
		const char *why;
	} rows[] = {
		{ { .min_age_ns = 1 }, "the snapshot has no birth times, hence no ages" },
		{ { .max_age_ns = 1 }, "the snapshot has no birth times, hence no ages" },
		{ { .thread = 1 }, "the snapshot has no threads: it does not say which of them allocated" },
	};
	struct data_snapshot data = DATA_SNAPSHOT(bare), empty = data_snapshot(NULL, 0, 0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct engine_options options = { .select = rows[i].select };
		struct snapshot *kept = (void *)&options;
		struct statistics *statistics;
		struct reason why = {};

		cr_expect_eq(snapshot_filter_traces(data.snapshot, &options, &kept, &why), -ENODATA);
		cr_expect_str_eq(why.text, rows[i].why);
		cr_expect_eq(kept, (void *)&options, "outputs are untouched on failure");
		why.text[0] = '\0';
		cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, &why),
			     -ENODATA);
		cr_expect_str_eq(why.text, rows[i].why);
		cr_expect_eq(snapshot_compare(empty.snapshot, data.snapshot, &options, &statistics,
					      NULL), -ENODATA);
		data_expect("no traces", NULL, empty.snapshot, &options, NULL, 0);
		cr_expect_eq(snapshot_filter_traces(empty.snapshot, &options, &kept, NULL), 0);
		snapshot__close(kept);
	}
	data_release(&data);
	data_release(&empty);
}

/* ---- orders ------------------------------------------------------------------------------- */

#define TRACES(filename, each, nr) { .size = each, .times = nr, .frame = { { filename, 1 } } }

static const struct data_trace before[] = {
	TRACES("lost", 50, 2), TRACES("lost_more", 101, 1), TRACES("fell", 30, 2),
	TRACES("same", 500, 1), TRACES("small", 1, 1), TRACES("fewer", 3, 2),
	TRACES("more", 6, 1), TRACES("b_tie", 10, 1), TRACES("a_tie", 10, 1),
};
static const struct data_trace after[] = {
	TRACES("fell", 10, 2), TRACES("new", 90, 1), TRACES("same", 500, 1), TRACES("small", 1, 1),
	TRACES("fewer", 6, 1), TRACES("more", 3, 2), TRACES("grew", 40, 1), TRACES("more", 0, 1),
	TRACES("b_tie", 20, 1), TRACES("a_tie", 20, 1), TRACES("c_tie", 10, 1),
};

Test(engine_selection, orders_the_rows_of_a_diff)
{
	struct data_snapshot old = DATA_SNAPSHOT(before), new = DATA_SNAPSHOT(after);
	struct engine_options options = { .key_type = KEY_LINENO };

	DATA_EXPECT("abs", old.snapshot, new.snapshot, &options,
		    { "lost_more:1", 0, 0, -101, -1 }, { "lost:1", 0, 0, -100, -2 },
		    { "new:1", 90, 1, 90, 1 }, { "grew:1", 40, 1, 40, 1 },
		    { "fell:1", 20, 2, -40, 0 }, { "b_tie:1", 20, 1, 10, 0 },
		    { "a_tie:1", 20, 1, 10, 0 }, { "c_tie:1", 10, 1, 10, 1 },
		    { "same:1", 500, 1, 0, 0 }, { "more:1", 6, 3, 0, 2 },
		    { "fewer:1", 6, 1, 0, -1 }, { "small:1", 1, 1, 0, 0 });
	options.sort = SORT_GROWTH;
	DATA_EXPECT("growth", old.snapshot, new.snapshot, &options,
		    { "new:1", 90, 1, 90, 1 }, { "grew:1", 40, 1, 40, 1 },
		    { "c_tie:1", 10, 1, 10, 1 }, { "b_tie:1", 20, 1, 10, 0 },
		    { "a_tie:1", 20, 1, 10, 0 }, { "more:1", 6, 3, 0, 2 },
		    { "same:1", 500, 1, 0, 0 }, { "small:1", 1, 1, 0, 0 },
		    { "fewer:1", 6, 1, 0, -1 }, { "fell:1", 20, 2, -40, 0 },
		    { "lost:1", 0, 0, -100, -2 }, { "lost_more:1", 0, 0, -101, -1 });
	options.sort = SORT_SHRINK;
	DATA_EXPECT("shrink", old.snapshot, new.snapshot, &options,
		    { "lost_more:1", 0, 0, -101, -1 }, { "lost:1", 0, 0, -100, -2 },
		    { "fell:1", 20, 2, -40, 0 }, { "fewer:1", 6, 1, 0, -1 },
		    { "same:1", 500, 1, 0, 0 }, { "small:1", 1, 1, 0, 0 }, { "more:1", 6, 3, 0, 2 },
		    { "b_tie:1", 20, 1, 10, 0 }, { "a_tie:1", 20, 1, 10, 0 },
		    { "c_tie:1", 10, 1, 10, 1 }, { "grew:1", 40, 1, 40, 1 },
		    { "new:1", 90, 1, 90, 1 });
	DATA_EXPECT("statistics have one order", NULL, old.snapshot, &options,
		    { "same:1", 500, 1 }, { "lost_more:1", 101, 1 }, { "lost:1", 100, 2 },
		    { "fell:1", 60, 2 }, { "b_tie:1", 10, 1 }, { "a_tie:1", 10, 1 },
		    { "fewer:1", 6, 2 }, { "more:1", 6, 1 }, { "small:1", 1, 1 });
	data_release(&old);
	data_release(&new);
}

Test(engine_selection, parses_orders_by_name)
{
	enum sort_order order = SORT_ORDER_NR;
	struct reason why = {};

	cr_expect_eq(sort_order_parse("Abs", &order, &why), -EINVAL);
	cr_expect_str_eq(why.text, "unknown order \"Abs\"; there are abs, growth, shrink");
	cr_expect_eq(sort_order_parse("", &order, NULL), -EINVAL);
	cr_expect_eq(order, SORT_ORDER_NR, "outputs are untouched on failure");
	cr_expect(!sort_order_parse("abs", &order, &why) && order == SORT_ABS);
	cr_expect(!sort_order_parse("growth", &order, &why) && order == SORT_GROWTH);
	cr_expect(!sort_order_parse("shrink", &order, &why) && order == SORT_SHRINK);
}

Test(engine_selection, refuses_an_order_out_of_range)
{
	const struct engine_options options = { .sort = SORT_ORDER_NR };
	struct data_snapshot empty = data_snapshot(NULL, 0, 0);
	struct statistics *statistics;

	cr_expect_eq(snapshot_compare(empty.snapshot, empty.snapshot, &options, &statistics, NULL),
		     -EINVAL);
	data_release(&empty);
}

/* ---- sums --------------------------------------------------------------------------------- */

/* The numbers are around the ends of batches; some sizes are too large to be added without a check. */
Test(engine_selection, sums_up_many_traces_exactly)
{
	static const unsigned int nrs[] = { 1, 30, 31, 32, 33, 222, 223, 224, 225, 10000 };
	static const uint64_t larger[] = { 0, 1, 1ull << 51, 1ull << 62, INT64_MAX - 10000 };

	for (size_t i = 0; i < ARRAY_SIZE(nrs); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(larger); j++) {
			const struct data_trace many[] = {
				{ .size = 1, .frame = { { "a.c", 1 } }, .times = nrs[i] },
				{ .size = larger[j], .frame = { { "b.c", 1 } } },
			};
			struct data_snapshot data = DATA_SNAPSHOT(many);
			struct statistics *statistics;

			cr_assert_eq(snapshot_statistics(data.snapshot, &(struct engine_options){},
							 &statistics, NULL), 0);
			cr_expect_eq(statistics->statistic_nr, 2);
			cr_expect_eq(statistics->total.count, nrs[i] + 1);
			cr_expect_eq(statistics->total.size, (int64_t)larger[j] + nrs[i]);
			statistics_free(statistics);
			data_release(&data);
		}
	}
}

Test(engine_selection, ignores_the_size_of_traces_that_are_left_out)
{
	static const struct data_trace huge[] = {
		{ .size = UINT64_MAX, .frame = { { "a.c", 1 } }, .times = 3 },
		{ .size = INT64_MAX, .frame = { { "b.c", 1 } } },
	};
	const struct engine_options options = { .select = { .filter = of_b, .filter_nr = 1 } };
	struct data_snapshot data = DATA_SNAPSHOT(huge);
	struct statistics *statistics;

	DATA_EXPECT("b.c", NULL, data.snapshot, &options, { "b.c:1", INT64_MAX, 1 });
	cr_expect_eq(snapshot_statistics(data.snapshot, &(struct engine_options){}, &statistics,
					 NULL), -ERANGE);
	data_release(&data);
}

/* ---- tracebacks --------------------------------------------------------------------------- */

Test(engine_selection, reads_tracebacks_without_wrappers)
{
	static const struct data_trace read[] = {
		{ .frame = { { "m.c", 1, "malloc" }, { "a.c", 2, "main", "/a", 0x10 } },
		  .total_nframe = 9 },
		{},
	};
	struct data_snapshot data = DATA_SNAPSHOT(read);
	uint32_t nframe, total_nframe;
	struct frame_view *frame;

	cr_assert_eq(traceback_read(data.snapshot, snapshot__trace(data.snapshot, 0).traceback,
				    &frame, &nframe, &total_nframe), 0);
	cr_assert_eq(nframe, 2);
	cr_expect_eq(total_nframe, 9);
	cr_expect_str_eq(frame[0].filename, "a.c");
	cr_expect_eq(frame[0].lineno, 2);
	cr_expect_str_eq(frame[0].function, "main");
	cr_expect_str_eq(frame[0].object, "/a");
	cr_expect_eq(frame[0].offset, 0x10);
	cr_expect_str_eq(frame[1].function, "malloc");
	cr_expect_null(frame[1].object);
	free(frame);

	cr_assert_eq(traceback_read(data.snapshot, snapshot__trace(data.snapshot, 1).traceback,
				    &frame, &nframe, &total_nframe), 0);
	cr_assert_eq(nframe, 1);
	cr_expect_eq(total_nframe, 0);
	cr_expect_str_eq(frame[0].filename, "<unknown>");
	cr_expect_null(frame[0].function);
	free(frame);
	data_release(&data);
}
