// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* CPython 3.11, Lib/test/test_tracemalloc.py, class TestSnapshot: its data and its answers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/reason.h"
#include "engine_data.h"

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
