// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine_data.h"
#include "snapshot.h"

/* Groups that are no frames: function, object, domain, process, size class and age. */

static const struct engine_options by_function = { .key_type = KEY_FUNCTION };
static const struct engine_options by_object = { .key_type = KEY_OBJECT };

static const struct data_trace framed[] = {
	{ .size = 1, .frame = { { "a.c", 1, "f", "/bin/a" }, { "a.c", 9, "main", "/bin/a" } } },
	{ .size = 2, .frame = { { "b.c", 7, "f", "/lib/b" }, { "a.c", 8, "main", "/bin/a" } } },
	{ .size = 4, .frame = { { "/lib/b", 0, NULL, "/lib/b", 0x10 }, { "b.c", 7, "f", "/lib/b" } } },
	{ .size = 8, .frame = { { "/lib/b", 0, NULL, "/lib/b", 0x20 } } },
	{ .size = 16, .frame = { { "<unknown>", 0, NULL, NULL, 0x7f00 } } },
	{ .size = 32 },
	{ .size = 64, .frame = { { "m.c", 1, "malloc", "/lib/c" }, { "r.c", 1, "r", "/lib/r" },
				 { "r.c", 2, "r", "/lib/r" } } },
};

Test(engine_keys, by_function_group_traces)
{
	struct data_snapshot data = DATA_SNAPSHOT(framed);
	struct engine_options options = by_function;

	DATA_EXPECT("function", NULL, data.snapshot, &options, { "[r]", 64, 1 },
		    { "[<unknown>]", 48, 2 }, { "[<unknown> in /lib/b]", 12, 2 }, { "[f]", 3, 2 });
	options.cumulative = true;
	DATA_EXPECT("cumulative", NULL, data.snapshot, &options, { "[r]", 128, 2 },
		    { "[<unknown>]", 48, 2 }, { "[<unknown> in /lib/b]", 12, 2 }, { "[f]", 7, 3 },
		    { "[main]", 3, 2 });
	data_release(&data);
}

Test(engine_keys, by_object_group_traces)
{
	struct data_snapshot data = DATA_SNAPSHOT(framed);
	struct engine_options options = by_object;

	DATA_EXPECT("object", NULL, data.snapshot, &options, { "[/lib/r]", 64, 1 },
		    { "[<unknown>]", 48, 2 }, { "[/lib/b]", 14, 3 }, { "[/bin/a]", 1, 1 });
	options.cumulative = true;
	options.keep_wrappers = true;
	DATA_EXPECT("cumulative", NULL, data.snapshot, &options, { "[/lib/r]", 128, 2 },
		    { "[/lib/c]", 64, 1 }, { "[<unknown>]", 48, 2 }, { "[/lib/b]", 18, 4 },
		    { "[/bin/a]", 4, 3 });
	data_release(&data);
}

Test(engine_keys, have_either_frames_or_a_text)
{
	struct data_snapshot data = DATA_SNAPSHOT(framed);

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i };
		struct statistics *statistics;

		if (i == KEY_AGE || i == KEY_THREAD)
			continue;
		cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
		cr_assert_gt(statistics->statistic_nr, 0);
		for (size_t j = 0; j < statistics->statistic_nr; j++) {
			const struct statistic *statistic = &statistics->statistic[j];

			cr_expect_eq(!statistic->key, i <= KEY_TRACEBACK, "%s", key_type_name(i));
			cr_expect_eq(!statistic->frame, i > KEY_TRACEBACK, "%s", key_type_name(i));
			cr_expect_eq(!statistic->nframe, i > KEY_TRACEBACK, "%s", key_type_name(i));
		}
		cr_expect_eq(statistics->total.size, 127);
		statistics_free(statistics);
	}
	data_release(&data);
}

Test(engine_keys, by_domain_group_traces)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .domain = 0, .times = 3 }, { .size = 3, .domain = 10 },
		{ .size = 2, .domain = UINT32_MAX }, { .size = 3, .domain = 9 },
		{ .size = 5, .domain = 10 },
	};
	const struct engine_options options = { .key_type = KEY_DOMAIN };
	struct data_snapshot data = DATA_SNAPSHOT(traces), one = DATA_SNAPSHOT(framed);

	DATA_EXPECT("domain", NULL, data.snapshot, &options, { "[10]", 8, 2 }, { "[0]", 3, 3 },
		    { "[9]", 3, 1 }, { "[4294967295]", 2, 1 });
	DATA_EXPECT("no column", NULL, one.snapshot, &options, { "[0]", 127, 7 });
	DATA_EXPECT("diff", data.snapshot, one.snapshot, &options, { "[0]", 127, 7, 124, 4 },
		    { "[10]", 0, 0, -8, -2 }, { "[9]", 0, 0, -3, -1 },
		    { "[4294967295]", 0, 0, -2, -1 });
	data_release(&data);
	data_release(&one);
}

Test(engine_keys, by_process_group_traces)
{
	static const char *const redis[] = { "comm", "redis-server", "pid", "4711", NULL };
	static const char *const other[] = { "comm", "redis-server", "pid", "4712", NULL };
	static const char *const nobody[] = { NULL };
	static const char *const nameless[] = { "pid", "5", NULL };
	static const char *const empty[] = { "comm", "", NULL };
	const struct engine_options options = { .key_type = KEY_PROCESS };
	struct data_snapshot a = data_snapshot_with(framed, 2, redis);
	struct data_snapshot b = data_snapshot_with(framed, 3, other);
	struct data_snapshot c = data_snapshot_with(framed, 1, nobody);
	struct data_snapshot d = data_snapshot_with(framed, 1, nameless);
	struct data_snapshot e = data_snapshot_with(framed, 1, empty);

	DATA_EXPECT("one", NULL, a.snapshot, &options, { "[redis-server[4711]]", 3, 2 });
	DATA_EXPECT("the same", a.snapshot, a.snapshot, &options,
		    { "[redis-server[4711]]", 3, 2, 0, 0 });
	DATA_EXPECT("two", a.snapshot, b.snapshot, &options, { "[redis-server[4712]]", 7, 3, 7, 3 },
		    { "[redis-server[4711]]", 0, 0, -3, -2 });
	DATA_EXPECT("not known", NULL, c.snapshot, &options, { "[<unknown>]", 1, 1 });
	DATA_EXPECT("no name", NULL, d.snapshot, &options, { "[<unknown>[5]]", 1, 1 });
	DATA_EXPECT("an empty name", NULL, e.snapshot, &options, { "[<unknown>]", 1, 1 });
	data_release(&a);
	data_release(&b);
	data_release(&c);
	data_release(&d);
	data_release(&e);
}

Test(engine_keys, by_size_class_group_traces)
{
	static const struct {
		uint64_t size;
		const char *key;
	} rows[] = {
		{ 0, "0 B" }, { 1, "[1 B, 2 B)" }, { 2, "[2 B, 4 B)" }, { 3, "[2 B, 4 B)" },
		{ 4, "[4 B, 8 B)" }, { 64, "[64 B, 128 B)" }, { 127, "[64 B, 128 B)" },
		{ 128, "[128 B, 256 B)" }, { 1023, "[512 B, 1 KiB)" }, { 1024, "[1 KiB, 2 KiB)" },
		{ 1048575, "[512 KiB, 1 MiB)" }, { 1048576, "[1 MiB, 2 MiB)" },
		{ 1ull << 30, "[1 GiB, 2 GiB)" }, { 1ull << 40, "[1 TiB, 2 TiB)" },
		{ 1ull << 50, "[1 PiB, 2 PiB)" }, { (1ull << 60) - 1, "[512 PiB, 1 EiB)" },
		{ INT64_MAX, "[4 EiB, 8 EiB)" },
	};
	const struct engine_options options = { .key_type = KEY_SIZE_CLASS };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct data_trace trace = { .size = rows[i].size };
		struct data_snapshot data = data_snapshot(&trace, 1, 0);
		struct statistics *statistics;

		cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
		cr_assert_eq(statistics->statistic_nr, 1);
		cr_expect_str_eq(statistics->statistic[0].key, rows[i].key);
		statistics_free(statistics);
		data_release(&data);
	}
}

#define S 1000000000ull
#define NOW (200000 * S)

Test(engine_keys, by_age_group_traces)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .birth_ns = NOW },
		{ .size = 2, .birth_ns = NOW + 1 },
		{ .size = 4, .birth_ns = NOW - S + 1 },
		{ .size = 8, .birth_ns = NOW - S },
		{ .size = 16, .birth_ns = NOW - 10 * S },
		{ .size = 32, .birth_ns = NOW - 60 * S + 1 },
		{ .size = 64, .birth_ns = NOW - 60 * S },
		{ .size = 128, .birth_ns = NOW - 600 * S },
		{ .size = 256, .birth_ns = NOW - 3600 * S },
		{ .size = 512, .birth_ns = NOW - 86400 * S + 1 },
		{ .size = 1024, .birth_ns = NOW - 86400 * S },
		{ .size = 2048, .birth_ns = 0 },
	};
	const struct engine_options options = { .key_type = KEY_AGE };
	struct data_snapshot data = data_snapshot(traces, ARRAY_SIZE(traces), NOW);

	DATA_EXPECT("age", NULL, data.snapshot, &options, { "[>= 1d]", 3072, 2 },
		    { "[1h - 1d]", 768, 2 }, { "[10m - 1h]", 128, 1 }, { "[1m - 10m]", 64, 1 },
		    { "[10s - 1m]", 48, 2 }, { "[1s - 10s]", 8, 1 }, { "[< 1s]", 7, 3 });
	data_release(&data);
}

Test(engine_keys, by_age_need_birth_times)
{
	const struct engine_options options = { .key_type = KEY_AGE };
	struct data_snapshot data = DATA_SNAPSHOT(framed), empty = data_snapshot(NULL, 0, 0);
	struct statistics *statistics = (void *)&options;
	struct reason why = {};

	cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, &why), -ENODATA);
	cr_expect_str_eq(why.text, "the snapshot has no birth times, hence no ages");
	cr_expect_eq(snapshot_compare(empty.snapshot, data.snapshot, &options, &statistics, NULL),
		     -ENODATA);
	cr_expect_eq(snapshot_compare(data.snapshot, empty.snapshot, &options, &statistics, NULL),
		     -ENODATA);
	cr_expect_eq(statistics, (void *)&options, "outputs are untouched on failure");
	data_release(&data);
	data_release(&empty);
}

Test(engine_keys, may_be_cumulative_for_four_key_types)
{
	static const bool has_cumulative[KEY_TYPE_NR] = {
		[KEY_LINENO] = true, [KEY_FILENAME] = true, [KEY_FUNCTION] = true,
		[KEY_OBJECT] = true,
	};
	struct data_snapshot data = DATA_SNAPSHOT(framed);

	for (enum key_type i = 0; i < KEY_TYPE_NR; i++) {
		struct engine_options options = { .key_type = i, .cumulative = true };
		struct statistics *statistics = NULL;
		struct reason why = {};
		char name[64] = "\"";

		strcat(strcat(name, key_type_name(i)), "\"");
		cr_expect_eq(key_type_has_cumulative(i), has_cumulative[i], "%s", name);
		cr_expect_eq(snapshot_statistics(data.snapshot, &options, &statistics, &why),
			     has_cumulative[i] ? 0 : -EINVAL, "%s", name);
		cr_expect(has_cumulative[i] || strstr(why.text, name), "%s: %s", name, why.text);
		statistics_free(statistics);
	}
	data_release(&data);
}

Test(engine_keys, of_equal_size_are_ordered_by_text)
{
	static const struct data_trace traces[] = {
		{ .size = 1, .frame = { { "z.c", 1, "a" } } },
		{ .size = 1, .frame = { { "y.c", 1, "b" } } },
		{ .size = 1, .frame = { { "x.c", 1, "B" } } },
		{ .size = 1, .frame = { { "w.c", 1, "aa" } } },
		{ .size = 1, .frame = { { "v.c", 1, "\xc3\xa9" } } },
	};
	struct data_snapshot data = DATA_SNAPSHOT(traces), empty = data_snapshot(NULL, 0, 0);

	DATA_EXPECT("statistics", NULL, data.snapshot, &by_function, { "[\xc3\xa9]", 1, 1 },
		    { "[b]", 1, 1 }, { "[aa]", 1, 1 }, { "[a]", 1, 1 }, { "[B]", 1, 1 });
	DATA_EXPECT("gone", data.snapshot, empty.snapshot, &by_function,
		    { "[\xc3\xa9]", 0, 0, -1, -1 }, { "[b]", 0, 0, -1, -1 }, { "[aa]", 0, 0, -1, -1 },
		    { "[a]", 0, 0, -1, -1 }, { "[B]", 0, 0, -1, -1 });
	data_release(&data);
	data_release(&empty);
}

/* Classes count selected traces only, and their sums do not wrap. */
Test(engine_keys, by_size_class_count_only_selected_traces)
{
	static const struct data_trace huge[] = {
		{ .size = INT64_MAX, .domain = 1 }, { .size = 1, .domain = 1 }, { .size = 2, .domain = 2 },
	};
	struct filter filter = { .inclusive = true, .object_pattern = "/lib/b" };
	struct engine_options options = {
		.key_type = KEY_SIZE_CLASS,
		.select = { .filter = &filter, .filter_nr = 1, .max_size = 7, .has_max_size = true },
	};
	struct data_snapshot data = DATA_SNAPSHOT(framed), much = DATA_SNAPSHOT(huge);
	struct statistics *statistics = NULL;
	struct reason why = {};

	DATA_EXPECT("size class", NULL, data.snapshot, &options, { "[[4 B, 8 B)]", 4, 1 },
		    { "[[2 B, 4 B)]", 2, 1 });
	options = (struct engine_options){ .key_type = KEY_DOMAIN };
	cr_expect_eq(snapshot_statistics(much.snapshot, &options, &statistics, &why), -ERANGE);
	cr_expect(strstr(why.text, "2^63"), "%s", why.text);
	options.select.min_size = 2;
	cr_expect_eq(snapshot_statistics(much.snapshot, &options, &statistics, &why), -ERANGE,
		     "the total does not fit");
	options.select = (struct selection){ .max_size = 2, .has_max_size = true };
	DATA_EXPECT("what fits", NULL, much.snapshot, &options, { "[2]", 2, 1 }, { "[1]", 1, 1 });
	data_release(&data);
	data_release(&much);
}

/* CPython 3.11, Lib/test/test_tracemalloc.py, class TestSnapshot: its data and its answers. */

static struct data_snapshot snapshot, snapshot2;

static void create_snapshots(void)
{
	static const struct data_trace raw_traces[] = {
		{ .size = 10, .frame = { { "a.py", 2 }, { "b.py", 4 } }, .times = 3,
		  .total_nframe = 3 },
		{ .size = 2, .frame = { { "a.py", 5 }, { "b.py", 4 } }, .total_nframe = 3 },
		{ .size = 66, .frame = { { "b.py", 1 } }, .total_nframe = 1 },
		{ .size = 7, .frame = { { "<unknown>", 0 } }, .total_nframe = 1 },
	};
	static const struct data_trace raw_traces2[] = {
		{ .size = 10, .frame = { { "a.py", 2 }, { "b.py", 4 } }, .times = 3,
		  .total_nframe = 3 },
		{ .size = 2, .frame = { { "a.py", 5 }, { "b.py", 4 } }, .total_nframe = 3 },
		{ .size = 5000, .frame = { { "a.py", 5 }, { "b.py", 4 } }, .total_nframe = 3 },
		{ .size = 400, .frame = { { "c.py", 578 } }, .total_nframe = 1 },
	};

	snapshot = DATA_SNAPSHOT(raw_traces);
	snapshot2 = DATA_SNAPSHOT(raw_traces2);
}

static void drop_snapshots(void)
{
	data_release(&snapshot);
	data_release(&snapshot2);
}

TestSuite(engine_tracemalloc, .init = create_snapshots, .fini = drop_snapshots);

Test(engine_tracemalloc, groups_by_line)
{
	const struct engine_options options = { .key_type = KEY_LINENO };

	DATA_EXPECT("stats", NULL, snapshot.snapshot, &options,
		    { "b.py:1", 66, 1 }, { "a.py:2", 30, 3 }, { "<unknown>:0", 7, 1 },
		    { "a.py:5", 2, 1 });
	DATA_EXPECT("stats (2)", NULL, snapshot2.snapshot, &options,
		    { "a.py:5", 5002, 2 }, { "c.py:578", 400, 1 }, { "a.py:2", 30, 3 });
	DATA_EXPECT("diff", snapshot.snapshot, snapshot2.snapshot, &options,
		    { "a.py:5", 5002, 2, 5000, 1 }, { "c.py:578", 400, 1, 400, 1 },
		    { "b.py:1", 0, 0, -66, -1 }, { "<unknown>:0", 0, 0, -7, -1 },
		    { "a.py:2", 30, 3, 0, 0 });
}

Test(engine_tracemalloc, groups_by_file)
{
	const struct engine_options options = { .key_type = KEY_FILENAME };

	DATA_EXPECT("stats", NULL, snapshot.snapshot, &options,
		    { "b.py:0", 66, 1 }, { "a.py:0", 32, 4 }, { "<unknown>:0", 7, 1 });
	DATA_EXPECT("stats (2)", NULL, snapshot2.snapshot, &options,
		    { "a.py:0", 5032, 5 }, { "c.py:0", 400, 1 });
	DATA_EXPECT("diff", snapshot.snapshot, snapshot2.snapshot, &options,
		    { "a.py:0", 5032, 5, 5000, 1 }, { "c.py:0", 400, 1, 400, 1 },
		    { "b.py:0", 0, 0, -66, -1 }, { "<unknown>:0", 0, 0, -7, -1 });
}

Test(engine_tracemalloc, groups_by_traceback)
{
	const struct engine_options options = { .key_type = KEY_TRACEBACK };

	DATA_EXPECT("stats", NULL, snapshot.snapshot, &options,
		    { "b.py:1", 66, 1 }, { "b.py:4 a.py:2", 30, 3 }, { "<unknown>:0", 7, 1 },
		    { "b.py:4 a.py:5", 2, 1 });
	DATA_EXPECT("stats (2)", NULL, snapshot2.snapshot, &options,
		    { "b.py:4 a.py:5", 5002, 2 }, { "c.py:578", 400, 1 },
		    { "b.py:4 a.py:2", 30, 3 });
	DATA_EXPECT("diff", snapshot.snapshot, snapshot2.snapshot, &options,
		    { "b.py:4 a.py:5", 5002, 2, 5000, 1 }, { "c.py:578", 400, 1, 400, 1 },
		    { "b.py:1", 0, 0, -66, -1 }, { "<unknown>:0", 0, 0, -7, -1 },
		    { "b.py:4 a.py:2", 30, 3, 0, 0 });
}

Test(engine_tracemalloc, refuses_cumulative_for_tracebacks)
{
	const struct engine_options options = { .key_type = KEY_TRACEBACK, .cumulative = true };
	struct statistics *statistics = (void *)&options;
	struct reason why = {};

	cr_expect_eq(snapshot_statistics(snapshot.snapshot, &options, &statistics, &why), -EINVAL);
	cr_expect(strstr(why.text, "cumulative"), "%s", why.text);
	cr_expect_eq(snapshot_compare(snapshot.snapshot, snapshot2.snapshot, &options, &statistics,
				      NULL), -EINVAL);
	cr_expect_eq(statistics, (void *)&options, "outputs are untouched on failure");
}

Test(engine_tracemalloc, groups_cumulatively)
{
	const struct engine_options by_file = { .key_type = KEY_FILENAME, .cumulative = true };
	const struct engine_options by_line = { .key_type = KEY_LINENO, .cumulative = true };

	DATA_EXPECT("file", NULL, snapshot.snapshot, &by_file,
		    { "b.py:0", 98, 5 }, { "a.py:0", 32, 4 }, { "<unknown>:0", 7, 1 });
	DATA_EXPECT("line", NULL, snapshot.snapshot, &by_line,
		    { "b.py:1", 66, 1 }, { "b.py:4", 32, 4 }, { "a.py:2", 30, 3 },
		    { "<unknown>:0", 7, 1 }, { "a.py:5", 2, 1 });
	DATA_EXPECT("diff", snapshot.snapshot, snapshot2.snapshot, &by_line,
		    { "b.py:4", 5032, 5, 5000, 1 }, { "a.py:5", 5002, 2, 5000, 1 },
		    { "c.py:578", 400, 1, 400, 1 }, { "b.py:1", 0, 0, -66, -1 },
		    { "<unknown>:0", 0, 0, -7, -1 }, { "a.py:2", 30, 3, 0, 0 });
}

Test(engine_tracemalloc, counts_each_trace_once_in_totals)
{
	const struct engine_options options = { .key_type = KEY_FILENAME, .cumulative = true };
	struct statistics *statistics;

	cr_assert_eq(snapshot_compare(snapshot.snapshot, snapshot2.snapshot, &options, &statistics,
				      NULL), 0);
	cr_expect_eq(statistics->total.size, 5432);
	cr_expect_eq(statistics->total.count, 6);
	cr_expect_eq(statistics->total_diff.size, 5432 - 105);
	cr_expect_eq(statistics->total_diff.count, 0);
	statistics_free(statistics);
	statistics_free(NULL);
}
