// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Which frames and tracebacks are one group, and how groups are ordered. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/array.h"
#include "engine/frame.h"
#include "engine_data.h"

static const struct engine_options by_line = { .key_type = KEY_LINENO };
static const struct engine_options by_file = { .key_type = KEY_FILENAME };
static const struct engine_options by_traceback = { .key_type = KEY_TRACEBACK };
static const struct engine_options as_tracemalloc = { .key_type = KEY_TRACEBACK, .tracemalloc = true };

static struct statistics *statistics_of(const struct data_snapshot *data,
					const struct engine_options *options)
{
	struct statistics *statistics;

	cr_assert_eq(snapshot_statistics(data->snapshot, options, &statistics, NULL), 0);
	return statistics;
}

static void expect_frame(const struct frame_view *got, const struct frame_view *want)
{
	cr_expect_str_eq(got->filename, want->filename);
	cr_expect_eq(got->lineno, want->lineno);
	cr_expect_str_eq(got->function ?: "(null)", want->function ?: "(null)");
	cr_expect_str_eq(got->object ?: "(null)", want->object ?: "(null)");
	cr_expect_eq(got->offset, want->offset, "offset %#lx", got->offset);
}

Test(engine_frames, are_ordered_by_their_fields)
{
	/* ascending */
	static const struct frame_view frames[] = {
		{ .filename = "" },
		{ .filename = "A" },
		{ .filename = "a" },
		{ .filename = "a", .offset = 1 },
		{ .filename = "a", .object = "/lib/a" },
		{ .filename = "a", .object = "/lib/a", .offset = 9 },
		{ .filename = "a", .object = "/lib/b", .offset = 8 },
		{ .filename = "a", .function = "f", .offset = 7 },
		{ .filename = "a", .function = "g", .offset = 6 },
		{ .filename = "a", .function = "g", .offset = UINT64_MAX },
		{ .filename = "a", .lineno = 1 },
		{ .filename = "a", .lineno = UINT32_MAX },
		{ .filename = "a.c" },
		{ .filename = "b", .lineno = 9 },
		{ .filename = "b", .lineno = 10 },
		{ .filename = "\xff" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(frames); j++) {
			int order = frame_compare(&frames[i], &frames[j]);

			cr_expect_eq((order > 0) - (order < 0), (i > j) - (i < j), "%zu, %zu", i,
				     j);
			if (i != j)
				cr_expect_neq(frame_hash(&frames[i], false), frame_hash(&frames[j], false));
		}
	}
}

Test(engine_frames, with_a_line_are_equal_whatever_their_function)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "a.h", 7, "f", "/lib/a", 0x10 } } },
		{ .size = 2, .frame = { { "a.h", 7, "g", "/lib/a", 0x20 } } },
		{ .size = 4, .frame = { { "b.c", 7, "g", "/lib/a", 0x30 } } },
		{ .size = 4, .frame = { { "b.c", 7, "g", "/lib/a", 0x40 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "b.c:7", 8, 2 }, { "a.h:7", 3, 2 });
	DATA_EXPECT("traceback", NULL, data.snapshot, &by_traceback, { "b.c:7", 8, 2 },
		    { "a.h:7", 2, 1 }, { "a.h:7", 1, 1 });
	DATA_EXPECT("tracemalloc", NULL, data.snapshot, &as_tracemalloc, { "b.c:7", 8, 2 },
		    { "a.h:7", 3, 2 });
	expect_frame(&statistics->statistic[0].frame[0],
		     &(struct frame_view){ .filename = "b.c", .lineno = 7, .function = "g", .object = "/lib/a" });
	expect_frame(&statistics->statistic[1].frame[0],
		     &(struct frame_view){ .filename = "a.h", .lineno = 7, .object = "/lib/a" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, without_a_line_differ_by_function_object_and_offset)
{
	static const struct data_trace traces[] = {
		{ .size = 64, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 32, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x20 } } },
		{ .size = 16, .frame = { { "/lib/x", 0, "f", "/lib/x", 0x20 } } },
		{ .size = 8, .frame = { { "/lib/x", 0, "f", "/lib/y", 0x20 } } },
		{ .size = 4, .frame = { { "/lib/x", 0, "f", NULL, 0x20 } } },
		{ .size = 3, .frame = { { "/lib/x", 0, "f", "/lib/y", 0x20 } }, .total_nframe = 9 },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "/lib/x:0", 64, 1 },
		    { "/lib/x:0", 32, 1 }, { "/lib/x:0", 16, 1 }, { "/lib/x:0", 11, 2 },
		    { "/lib/x:0", 4, 1 });
	DATA_EXPECT("filename", NULL, data.snapshot, &by_file, { "/lib/x:0", 127, 6 });
	expect_frame(&statistics->statistic[3].frame[0],
		     &(struct frame_view){ .filename = "/lib/x", .function = "f", .object = "/lib/y", .offset = 0x20 });
	statistics_free(statistics);
	statistics = statistics_of(&data, &by_file);
	expect_frame(&statistics->statistic[0].frame[0], &(struct frame_view){ "/lib/x" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, keep_the_names_of_their_own_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 2, .frame = { { "vec.h", 9, "push<int>" }, { "a.c", 1, "one" } } },
		{ .size = 1, .frame = { { "vec.h", 9, "push<char>" }, { "a.c", 2, "two" } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct statistics *statistics = statistics_of(&data, &by_traceback);

	cr_assert_eq(statistics->statistic_nr, 2);
	cr_expect_str_eq(statistics->statistic[0].frame[1].function, "push<int>");
	cr_expect_str_eq(statistics->statistic[1].frame[1].function, "push<char>");
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, are_unknown_for_a_trace_without_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 1 },
		{ .size = 2, .frame = { { "<unknown>", 0 } }, .total_nframe = 1 },
		{ .size = 4, .frame = { { "<unknown>", 0, "f", NULL, 0x10 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct engine_options cumulative = { .cumulative = true };
	struct statistics *statistics = statistics_of(&data, &by_line);

	DATA_EXPECT("lineno", NULL, data.snapshot, &by_line, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	DATA_EXPECT("filename", NULL, data.snapshot, &by_file, { "<unknown>:0", 7, 3 });
	DATA_EXPECT("traceback", NULL, data.snapshot, &by_traceback, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	DATA_EXPECT("cumulative", NULL, data.snapshot, &cumulative, { "<unknown>:0", 4, 1 },
		    { "<unknown>:0", 3, 2 });
	expect_frame(&statistics->statistic[1].frame[0], &(struct frame_view){ "<unknown>" });
	statistics_free(statistics);
	data_release(&data);
}

Test(engine_frames, count_once_per_occurrence_in_recursion)
{
	static const struct data_trace traces[] = {
		{ .size = 10, .frame = { { "r.c", 3 }, { "r.c", 5 }, { "r.c", 5 }, { "m.c", 1 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct engine_options options = { .cumulative = true };

	DATA_EXPECT("lineno", NULL, data.snapshot, &options, { "r.c:5", 20, 2 },
		    { "r.c:3", 10, 1 }, { "m.c:1", 10, 1 });
	options.key_type = KEY_FILENAME;
	DATA_EXPECT("filename", NULL, data.snapshot, &options, { "r.c:0", 30, 3 },
		    { "m.c:0", 10, 1 });
	data_release(&data);
}

Test(engine_frames, form_one_group_whatever_their_ids)
{
	static const struct data_trace old_traces[] = {
		{ .size = 9, .frame = { { "z.c", 9, "z", "/old", 1 } } },
		{ .size = 8, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 5, .frame = { { "a.c", 1, "f", "/bin/a", 0x10 }, { "m.c", 2 } } },
	};
	static const struct data_trace new_traces[] = {
		{ .size = 7, .frame = { { "a.c", 1, "f", "/bin/a", 0x18 }, { "m.c", 2 } } },
		{ .size = 4, .frame = { { "n.c", 4 } } },
		{ .size = 6, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x10 } } },
		{ .size = 6, .frame = { { "/lib/x", 0, NULL, "/lib/x", 0x11 } } },
	};
	struct data_snapshot old = DATA_SNAPSHOT(old_traces), new = DATA_SNAPSHOT(new_traces);
	struct statistics *statistics;

	DATA_EXPECT("lineno", old.snapshot, new.snapshot, &by_line, { "z.c:9", 0, 0, -9, -1 },
		    { "/lib/x:0", 6, 1, 6, 1 }, { "n.c:4", 4, 1, 4, 1 }, { "a.c:1", 7, 1, 2, 0 },
		    { "/lib/x:0", 6, 1, -2, 0 });
	DATA_EXPECT("traceback", old.snapshot, new.snapshot, &by_traceback,
		    { "z.c:9", 0, 0, -9, -1 }, { "/lib/x:0", 6, 1, 6, 1 }, { "n.c:4", 4, 1, 4, 1 },
		    { "m.c:2 a.c:1", 7, 1, 2, 0 }, { "/lib/x:0", 6, 1, -2, 0 });
	cr_assert_eq(snapshot_compare(old.snapshot, new.snapshot, &by_line, &statistics, NULL), 0);
	expect_frame(&statistics->statistic[0].frame[0],
		     &(struct frame_view){ .filename = "z.c", .lineno = 9, .function = "z", .object = "/old", .offset = 1 });
	expect_frame(&statistics->statistic[3].frame[0],
		     &(struct frame_view){ .filename = "a.c", .lineno = 1, .function = "f", .object = "/bin/a" });
	statistics_free(statistics);
	data_release(&old);
	data_release(&new);
}

Test(engine_frames, of_equal_size_are_ordered_by_traceback)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "x.c", 1 }, { "a.c", 2 } } },
		{ .size = 1, .frame = { { "a.c", 10 } } },
		{ .size = 1, .frame = { { "a.c", 2 } } },
		{ .size = 1, .frame = { { "a.c", 1 }, { "b.c", 1 } } },
		{ .size = 0, .frame = { { "a.c", 3 } }, .times = 2 },
		{ .size = 0, .frame = { { "z.c", 3 } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces), empty = data_snapshot(NULL, 0, 0);

	DATA_EXPECT("statistics", NULL, data.snapshot, &by_traceback, { "b.c:1 a.c:1", 1, 1 },
		    { "a.c:10", 1, 1 }, { "a.c:2 x.c:1", 1, 1 }, { "a.c:2", 1, 1 },
		    { "a.c:3", 0, 2 }, { "z.c:3", 0, 1 });
	DATA_EXPECT("gone", data.snapshot, empty.snapshot, &by_traceback,
		    { "b.c:1 a.c:1", 0, 0, -1, -1 }, { "a.c:10", 0, 0, -1, -1 },
		    { "a.c:2 x.c:1", 0, 0, -1, -1 }, { "a.c:2", 0, 0, -1, -1 },
		    { "a.c:3", 0, 0, 0, -2 }, { "z.c:3", 0, 0, 0, -1 });
	DATA_EXPECT("same", data.snapshot, data.snapshot, &by_file, { "a.c:0", 3, 5 },
		    { "x.c:0", 1, 1 }, { "z.c:0", 0, 1 });
	data_release(&data);
	data_release(&empty);
}

Test(engine_frames, form_no_groups_in_an_empty_snapshot)
{
	struct data_snapshot empty = data_snapshot(NULL, 0, 0);

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i, .select.min_age_ns = 1 };

		data_expect("statistics", NULL, empty.snapshot, &options, NULL, 0);
		data_expect("diff", empty.snapshot, empty.snapshot, &options, NULL, 0);
	}
	data_release(&empty);
}
