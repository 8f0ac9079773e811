// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/array.h"
#include "engine.h"
#include "render/statistic_text.h"
#include "render.h"

/* Texts that CPython 3.11 gave: str(Statistic(…)), str(StatisticDiff(…)). */
Test(render_statistic, matches_tracemalloc)
{
	static const struct {
		const char *filename;
		uint32_t lineno;
		struct cost cost, diff;
		bool is_diff;
		const char *text;
	} cases[] = {
		{ "b.py", 1, { 66, 1 }, {}, false, "b.py:1: size=66 B, count=1, average=66 B" },
		{ "a.py", 5, { 5002, 2 }, { 5000, 1 }, true,
		  "a.py:5: size=5002 B (+5000 B), count=2 (+1), average=2501 B" },
		{ "c.py", 578, { 400, 1 }, { 400, 1 }, true,
		  "c.py:578: size=400 B (+400 B), count=1 (+1), average=400 B" },
		{ "b.py", 1, { 0, 0 }, { -66, -1 }, true,
		  "b.py:1: size=0 B (-66 B), count=0 (-1)" },
		{ "a.py", 2, { 30, 3 }, { 0, 0 }, true,
		  "a.py:2: size=30 B (+0 B), count=3 (+0), average=10 B" },
		{ "b.c", 0, { 10, 3 }, {}, false, "b.c:0: size=10 B, count=3, average=3 B" },
		{ "<unknown>", 0, { 0, 4 }, {}, false,
		  "<unknown>:0: size=0 B, count=4, average=0 B" },
		{ "x", UINT32_MAX, { INT64_MAX, 3 }, {}, false,
		  "x:4294967295: size=8388608 TiB, count=3, average=2796203 TiB" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame_view frame = {
			.filename = cases[i].filename,
			.lineno = cases[i].lineno,
		};
		struct statistic row = { &frame, 1, cases[i].cost, cases[i].diff };
		char *text = statistic_text(&row, cases[i].is_diff);

		cr_expect_str_eq(text, cases[i].text);
		free(text);
	}
}

Test(render_statistic, names_a_traceback_by_its_head_or_its_oldest_frame)
{
	static const struct frame_view frames[] = {
		{ .filename = "main.c", .lineno = 70 },
		{ .filename = "cart.c", .lineno = 31 },
	};
	struct statistic row = { frames, 2, { 5, 1 }, {} };
	char *text = statistic_text(&row, false);

	cr_expect_str_eq(text, "main.c:70: size=5 B, count=1, average=5 B");
	free(text);

	row.head = &frames[1];
	text = statistic_text(&row, false);
	cr_expect_str_eq(text, "cart.c:31: size=5 B, count=1, average=5 B");
	free(text);
}

/* A row for each of ten functions of a stripped file would begin with the same "/bin/a:0". */
Test(render_statistic, names_a_frame_without_a_line_by_what_is_known)
{
	static const struct {
		struct frame_view frame;
		const char *text;
	} cases[] = {
		{ { .filename = "/bin/a", .function = "f", .object = "/bin/a", .offset = 0x10 }, "f (/bin/a+0x10)" },
		{ { .filename = "/bin/a", .object = "/bin/a", .offset = 0x10 }, "/bin/a+0x10" },
		{ { .filename = "<unknown>", .function = "jitted" }, "jitted" },
		{ { .filename = "<unknown>", .offset = 0x7f00 }, "0x7f00" },
		{ { .filename = "a.c", .lineno = 3, .function = "f", .object = "/bin/a", .offset = 0x10 }, "a.c:3" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct statistic row = { &cases[i].frame, 1, { 5, 1 }, {} };
		char *text = statistic_text(&row, false);

		cr_expect_str_eq(text + strlen(cases[i].text), ": size=5 B, count=1, average=5 B");
		cr_expect(!strncmp(text, cases[i].text, strlen(cases[i].text)), "%s", text);
		free(text);
	}
}

Test(render_statistic, names_a_group_without_frames_by_its_key)
{
	struct statistic row = { NULL, 0, { 4096, 4 }, { -1, 0 }, .key = "512 B" };
	char *text = statistic_text(&row, false);

	cr_expect_str_eq(text, "512 B: size=4096 B, count=4, average=1024 B");
	free(text);
	text = statistic_text(&row, true);
	cr_expect_str_eq(text, "512 B: size=4096 B (-1 B), count=4 (+0), average=1024 B");
	free(text);
}

Test(render_statistic, prints_sizes_like_tracemalloc)
{
	char text[SIZE_TEXT_MAX];

	cr_expect_str_eq(size_text(text, 66, false), "66 B");
	cr_expect_str_eq(size_text(text, 5002, true), "+5002 B");
	cr_expect_str_eq(size_text(text, -10240, true), "-10.0 KiB");
}

Test(render_frame, prints_all_known_parts)
{
	static const struct {
		struct frame_view frame;
		const char *text, *name, *extra;
	} cases[] = {
		{ { .filename = "a.c", .lineno = 3, .function = "f", .object = "/bin/a", .offset = 0x10 },
		  "f at a.c:3", "f", "in f" },
		{ { .filename = "a.c", .lineno = 3, .object = "/bin/a", .offset = 0x10 }, "a.c:3", "a.c:3", "" },
		{ { .filename = "/bin/a", .function = "f", .object = "/bin/a", .offset = 0x10 }, "f (/bin/a+0x10)", "f",
		  "" },
		{ { .filename = "/bin/a", .object = "/bin/a", .offset = 0x10 }, "/bin/a+0x10", "/bin/a+0x10",
		  "" },
		{ { .filename = "/bin/a", .object = "/bin/a" }, "/bin/a", "/bin/a", "" },
		{ { .filename = "<unknown>", .offset = 0x7f00 }, "0x7f00", "0x7f00", "" },
		{ { .filename = "<unknown>", .function = "jitted" }, "jitted", "jitted", "" },
		{ { .filename = "<unknown>" }, "<unknown>", "<unknown>", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t text_tail;
		char *text = frame_text(NULL, &cases[i].frame, &text_tail);
		char *name = frame_name(NULL, &cases[i].frame);
		char *extra = frame_extra(NULL, &cases[i].frame);

		cr_expect_str_eq(text, cases[i].text);
		cr_expect_str_eq(name, cases[i].name);
		cr_expect_str_eq(extra, cases[i].extra);
		free(text);
		free(name);
		free(extra);
	}
}

/* The error of an estimate is the distance to the farther end of its interval; an exact number has none. */
Test(render_statistic, prints_estimates_with_their_errors)
{
	static const struct {
		struct cost cost, diff;
		struct estimate estimate;
		bool is_diff;
		const char *text;
	} cases[] = {
		{ { 67584, 132 }, {}, { 9, 0, true, true, true, { 60000, 80000 }, { 120, 140 } }, false,
		  "a.c:1: size=66.0 KiB ±12.1 KiB, count=132 ±12, average=512 B" },
		{ { 100, 3 }, {}, { 3, 0, true, true, true, { 100, 100 }, { 3, 3 } }, false,
		  "a.c:1: size=100 B, count=3, average=33 B" },
		{ { 67584, 132 }, {}, { 9, 0, false, false, false, {}, {} }, false,
		  "a.c:1: size=66.0 KiB, count=132, average=512 B" },
		{ { 100, 3 }, { -50, 1 }, { 3, 1, true, true, true, { 90, 110 }, { 3, 5 }, { -60, -20 }, { -4, 2 } }, true,
		  "a.c:1: size=100 B ±10 B (-50 B ±30 B), count=3 ±2 (+1 ±5), average=33 B" },
		{ { 0, 0 }, { -50, -1 }, { 0, 1, true, true, true, {}, {}, { -60, -50 }, { -1, -1 } }, true,
		  "a.c:1: size=0 B (-50 B ±10 B), count=0 (-1)" },
		{ { INT64_MAX, 1 }, { INT64_MAX, 1 },
		  { 1, 1, true, true, true, { 0, INT64_MAX }, { 1, INT64_MAX }, { INT64_MIN, INT64_MAX }, { INT64_MIN, 1 } },
		  true, "a.c:1: size=8388608 TiB ±8388608 TiB (+8388608 TiB ±16777216 TiB), "
			"count=1 ±9223372036854775806 (+1 ±9223372036854775809), average=8388608 TiB" },
		{ { 100, 3 }, { -50, 1 }, { 3, 1, true, false, false, { 90, 110 }, {}, { -60, -20 }, {} }, true,
		  "a.c:1: size=100 B ±10 B (-50 B ±30 B), count=3 ±? (+1 ±?), average=33 B" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame_view frame = { .filename = "a.c", .lineno = 1 };
		struct statistic row = { &frame, 1, cases[i].cost, cases[i].diff,
					 .estimate = &cases[i].estimate };
		char *text = statistic_text(&row, cases[i].is_diff);

		cr_expect_str_eq(text, cases[i].text);
		free(text);
	}
}
