// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "engine_data.h"
#include "snapshot.h"

/* Filters: CPython 3.11, Lib/test/test_tracemalloc.py, class TestFilters, and our own cases. */

/* Does a snapshot of this trace alone keep it? */
static bool takes(const struct filter *filter, size_t nr, const struct data_trace *trace)
{
	const struct engine_options options = { .select = { .filter = filter, .filter_nr = nr } };
	struct data_snapshot data = data_snapshot(trace, 1, 0);
	struct statistics *statistics;
	bool is_there;

	cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
	is_there = statistics->total.count == 1;
	cr_expect_eq(statistics->statistic_nr, is_there);
	statistics_free(statistics);
	data_release(&data);
	return is_there;
}

static bool match_frame(const struct filter *filter, const char *filename, uint32_t lineno)
{
	const struct data_trace trace = { .frame = { { filename, lineno } } };

	return takes(filter, 1, &trace);
}

Test(engine_filters, match_file_names_and_lines)
{
	static const struct {
		const char *filename;
		uint32_t lineno;
	} frames[] = {
		{ "abc", 0 }, { "abc", 5 }, { "abc", 10 }, { "12356", 0 }, { "12356", 5 }, { "12356", 10 },
	};
	static const struct {
		struct filter filter; /* without `inclusive` */
		bool matches[ARRAY_SIZE(frames)];
	} rows[] = {
		{ { .filename_pattern = "abc" }, { 1, 1, 1, 0, 0, 0 } },
		{ { .filename_pattern = "abc", .has_lineno = true, .lineno = 5 },
		  { 0, 1, 0, 0, 0, 0 } },
		{ { .filename_pattern = "abc", .has_lineno = true, .lineno = 0 },
		  { 1, 0, 0, 0, 0, 0 } },
		{ { .has_lineno = true, .lineno = 5 }, { 0, 1, 0, 0, 1, 0 } },
		{ { .has_lineno = true, .lineno = (1ull << 32) + 5 }, { 0, 0, 0, 0, 0, 0 } },
		{ { .filename_pattern = "abc", .lineno = 5 }, { 1, 1, 1, 0, 0, 0 } },
		{ {}, { 1, 1, 1, 1, 1, 1 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(frames); j++) {
			struct filter filter = rows[i].filter;

			cr_expect_eq(match_frame(&filter, frames[j].filename, frames[j].lineno),
				     !rows[i].matches[j], "row %zu, exclusive, %zu", i, j);
			filter.inclusive = true;
			cr_expect_eq(match_frame(&filter, frames[j].filename, frames[j].lineno),
				     rows[i].matches[j], "row %zu, inclusive, %zu", i, j);
		}
	}
}

Test(engine_filters, match_file_name_patterns)
{
	static const struct {
		const char *filename, *pattern;
		bool matches;
	} rows[] = {
		{ "abc", "abc", true }, { "12356", "abc", false }, { "<unknown>", "abc", false },
		{ "abc", "", false }, { "", "abc", false }, { "", "", true }, { "", "*", true },
		{ "abc", "abcd", false }, { "abc", "def", false },
		{ "abc", "a*", true }, { "abc", "abc*", true }, { "abc", "b*", false },
		{ "abc", "abcd*", false },
		{ "abc", "a*c", true }, { "abcdcx", "a*cx", true }, { "abb", "a*c", false },
		{ "abcdce", "a*cx", false },
		{ "abcde", "a*c*e", true }, { "abcbdefeg", "a*bd*eg", true },
		{ "abcdd", "a*c*e", false }, { "abcbdefef", "a*bd*eg", false },
		{ "a.pyc", "a.py", true }, { "a.py", "a.pyc", true },
		{ "aBC", "ABc", false }, { "aBcDe", "Ab*dE", false },
		{ "a.pyc", "a.PY", false }, { "a.py", "a.PYC", false },
		{ "a/b", "a\\b", false }, { "a\\b", "a/b", false }, { "a/b\\c", "a\\b/c", false },
		{ "a/b/c", "a\\b\\c", false }, { "a.pyo", "a.py", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct filter filter = { .filename_pattern = rows[i].pattern };

		cr_expect_eq(match_frame(&filter, rows[i].filename, 0), !rows[i].matches,
			     "exclusive \"%s\", \"%s\"", rows[i].pattern, rows[i].filename);
		filter.inclusive = true;
		cr_expect_eq(match_frame(&filter, rows[i].filename, 0), rows[i].matches,
			     "\"%s\", \"%s\"", rows[i].pattern, rows[i].filename);
	}
}

Test(engine_filters, match_traces)
{
	static const struct data_trace traces[] = {
		{ .frame = { { "a.py", 2 }, { "b.py", 3 } } },
		{ .frame = { { "b.py", 4 }, { "b.py", 5 } } },
		{ .frame = { { "c.py", 5 }, { "<unknown>", 0 } } },
		{ .frame = { { "<unknown>", 0 } } },
		{}, /* without a traceback: the same */
	};
	static const struct {
		struct filter filter;
		bool takes[ARRAY_SIZE(traces)];
	} rows[] = {
		{ { true, true, .filename_pattern = "b.py" }, { 1, 1, 0, 0, 0 } },
		{ { true, false, .filename_pattern = "b.py" }, { 0, 1, 0, 0, 0 } },
		{ { false, true, .filename_pattern = "b.py" }, { 0, 0, 1, 1, 1 } },
		{ { false, false, .filename_pattern = "b.py" }, { 1, 0, 1, 1, 1 } },
		{ { false, false, .filename_pattern = "<unknown>" }, { 1, 1, 1, 0, 0 } },
		{ { true, true, .filename_pattern = "<unknown>" }, { 0, 0, 1, 1, 1 } },
		{ { false, true, .filename_pattern = "<unknown>" }, { 1, 1, 0, 0, 0 } },
		/* all that is asked holds for one frame */
		{ { true, true, true, .lineno = 3, .filename_pattern = "b.py" }, { 1, 0, 0, 0, 0 } },
		{ { true, true, true, .lineno = 2, .filename_pattern = "b.py" }, { 0, 0, 0, 0, 0 } },
		{ { true, true, true, .lineno = 5 }, { 0, 1, 1, 0, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t j = 0; j < ARRAY_SIZE(traces); j++)
			cr_expect_eq(takes(&rows[i].filter, 1, &traces[j]), rows[i].takes[j],
				     "row %zu, trace %zu", i, j);
}

Test(engine_filters, match_functions_and_objects)
{
	static const struct data_trace traces[] = {
		{ .frame = { { "a.c", 1, "json_load", "/usr/lib/libjson.so" } } },
		{ .frame = { { "a.pyc", 1, "f.pyc", NULL } } },
		{ .frame = { { "/usr/lib/x", 0, NULL, "/usr/lib/x" }, { "m.c", 1, "main", "/m" } } },
		{},
	};
	static const struct {
		struct filter filter;
		bool takes[ARRAY_SIZE(traces)];
	} rows[] = {
		{ { .function_pattern = "json_*" }, { 1, 0, 0, 0 } },
		{ { .function_pattern = "<unknown>" }, { 0, 0, 1, 1 } },
		{ { .function_pattern = "f.py" }, { 0, 0, 0, 0 } },
		{ { .object_pattern = "/usr/*" }, { 1, 0, 1, 0 } },
		{ { .object_pattern = "<unknown>" }, { 0, 1, 0, 1 } },
		{ { .object_pattern = "/usr/*", .function_pattern = "<*" }, { 0, 0, 1, 0 } },
		{ { .object_pattern = "/m", .all_frames = true }, { 0, 0, 1, 0 } },
		{ { .object_pattern = "/m", .function_pattern = "<*", .all_frames = true },
		  { 0, 0, 0, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(traces); j++) {
			struct filter filter = rows[i].filter;

			filter.inclusive = true;
			cr_expect_eq(takes(&filter, 1, &traces[j]), rows[i].takes[j],
				     "row %zu, trace %zu", i, j);
		}
	}
}

Test(engine_filters, ignore_wrapper_frames)
{
	static const struct data_trace trace = {
		.frame = { { "m.c", 1, "malloc" }, { "x.c", 2, "x_new" }, { "a.c", 3, "main" } },
	};
	static const char *const skip[] = { "x*" };
	const struct filter filters[] = {
		{ true, .filename_pattern = "m.c" }, { true, true, .filename_pattern = "m.c" },
		{ true, .filename_pattern = "x.c" }, { true, .filename_pattern = "a.c" },
	};
	static const struct {
		bool keep_wrappers, with_skip, takes[4];
	} rows[] = {
		{ false, false, { 0, 0, 1, 0 } },
		{ false, true, { 0, 0, 0, 1 } },
		{ true, true, { 1, 1, 0, 0 } },
	};
	struct data_snapshot data = data_snapshot(&trace, 1, 0);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(filters); j++) {
			struct engine_options options = {
				.keep_wrappers = rows[i].keep_wrappers,
				.skip = skip,
				.skip_nr = rows[i].with_skip,
				.select = { .filter = &filters[j], .filter_nr = 1 },
			};
			struct statistics *statistics;

			cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL),
				     0);
			cr_expect_eq(statistics->total.count, rows[i].takes[j], "row %zu, %zu", i, j);
			statistics_free(statistics);
		}
	}
	data_release(&data);
}

/* ---- of several, and with domains --------------------------------------------------------- */

/* The traces of TestSnapshot. `takes` has a bit for each domain. */
static const struct data_trace traces[] = {
	{ .size = 10, .frame = { { "a.py", 2 }, { "b.py", 4 } }, .times = 3, .domain = 0 },
	{ .size = 2, .frame = { { "a.py", 5 }, { "b.py", 4 } }, .domain = 1 },
	{ .size = 66, .frame = { { "b.py", 1 } }, .domain = 2 },
	{ .size = 7, .frame = { { "<unknown>", 0 } }, .domain = 3 },
	/* the traceback of domain 1, in another */
	{ .size = 100, .frame = { { "a.py", 5 }, { "b.py", 4 } }, .domain = 4 },
};

#define IN(pattern, ...) { .inclusive = true, .filename_pattern = pattern, __VA_ARGS__ }
#define OUT(pattern, ...) { .filename_pattern = pattern, __VA_ARGS__ }
#define LINE(n) .has_lineno = true, .lineno = (n)
#define DOMAIN(n) .has_domain = true, .domain = (n)

static const struct {
	const char *what;
	struct filter filter[3];
	size_t nr;
	bool takes[ARRAY_SIZE(traces)];
} several[] = {
	{ "none", {}, 0, { 1, 1, 1, 1, 1 } },
	{ "exclude b.py", { OUT("b.py") }, 1, { 1, 1, 0, 1, 1 } },
	{ "two lines", { IN("a.py", LINE(2)), IN("a.py", LINE(5)) }, 2, { 1, 1, 0, 0, 1 } },
	{ "or", { IN("b.py"), IN("<*") }, 2, { 0, 0, 1, 1, 0 } },
	{ "veto", { IN("a.py"), OUT("*", LINE(5)), IN("b.py") }, 3, { 1, 0, 1, 0, 0 } },
	{ "vetoes", { OUT("a.py"), OUT("b.py") }, 2, { 0, 0, 0, 1, 0 } },
	{ "veto wins", { IN("a.py"), OUT("a.py") }, 2, { 0, 0, 0, 0, 0 } },
	{ "exclude a.py of 1", { OUT("a.py", DOMAIN(1)) }, 1, { 1, 0, 1, 1, 1 } },
	{ "include a.py of 1", { IN("a.py", DOMAIN(1)) }, 1, { 0, 1, 0, 0, 0 } },
	{ "exclude domain 3", { OUT(NULL, DOMAIN(3)) }, 1, { 1, 1, 1, 0, 1 } },
	{ "include domain 3", { IN(NULL, DOMAIN(3)) }, 1, { 0, 0, 0, 1, 0 } },
	{ "no such domain", { IN(NULL, DOMAIN(UINT32_MAX)) }, 1, { 0, 0, 0, 0, 0 } },
	{ "domain or", { IN("b.py", DOMAIN(0)), IN(NULL, DOMAIN(4)) }, 2, { 0, 0, 0, 0, 1 } },
	{ "domain 0 is one", { IN(NULL, DOMAIN(0)), IN("b.py") }, 2, { 1, 0, 1, 0, 0 } },
	{ "the same twice", { IN(NULL, DOMAIN(1)), OUT("a.py", DOMAIN(1)) }, 2, { 0, 0, 0, 0, 0 } },
};

static bool takes_one(size_t row, const struct data_trace *trace)
{
	struct data_trace one = *trace;

	one.times = 1;
	return takes(several[row].filter, several[row].nr, &one);
}

/* Together, where verdicts are shared, and one by one. */
Test(engine_filters, may_be_combined)
{
	struct data_snapshot data = DATA_SNAPSHOT(traces);

	for (size_t i = 0; i < ARRAY_SIZE(several); i++) {
		struct engine_options options = {
			.select = { .filter = several[i].filter, .filter_nr = several[i].nr },
		};
		struct statistics *statistics;
		int64_t size = 0;

		for (size_t j = 0; j < ARRAY_SIZE(traces); j++) {
			cr_expect_eq(takes_one(i, &traces[j]), several[i].takes[j], "%s, trace %zu",
				     several[i].what, j);
			if (several[i].takes[j])
				size += traces[j].size * (traces[j].times ?: 1);
		}
		cr_assert_eq(snapshot_statistics(data.snapshot, &options, &statistics, NULL), 0);
		cr_expect_eq(statistics->total.size, size, "%s: %ld, not %ld", several[i].what,
			     statistics->total.size, size);
		statistics_free(statistics);
	}
	data_release(&data);
}

Test(engine_filters, select_traces_of_a_snapshot)
{
	struct data_snapshot data = DATA_SNAPSHOT(traces);

	for (size_t i = 0; i < ARRAY_SIZE(several); i++) {
		struct engine_options options = {
			.select = { .filter = several[i].filter, .filter_nr = several[i].nr },
		};
		struct snapshot *kept;
		uint64_t at = 0;

		cr_assert_eq(snapshot_filter_traces(data.snapshot, &options, &kept, NULL), 0);
		for (size_t j = 0; j < ARRAY_SIZE(traces); j++) {
			for (unsigned int k = 0; several[i].takes[j] && k < (traces[j].times ?: 1);
			     k++) {
				struct snap_trace trace = snapshot__trace(kept, at++);

				cr_expect_eq(trace.size, traces[j].size, "%s", several[i].what);
				cr_expect_eq(trace.domain, traces[j].domain, "%s", several[i].what);
			}
		}
		cr_expect_eq(snapshot__tables(kept)->trace_nr, at, "%s", several[i].what);
		snapshot__close(kept);
	}
	cr_expect_eq(snapshot__tables(data.snapshot)->trace_nr, 7, "the original is untouched");
	data_release(&data);
}

Test(engine_filters, may_be_applied_twice)
{
	static const struct filter first[] = { OUT("b.py") };
	static const struct filter then[] = { IN("a.py", LINE(2)), IN("a.py", LINE(5)) };
	struct engine_options options = { .select = { .filter = first, .filter_nr = 1 } };
	struct data_snapshot data = DATA_SNAPSHOT(traces);
	struct snapshot *once, *twice;

	cr_assert_eq(snapshot_filter_traces(data.snapshot, &options, &once, NULL), 0);
	options.select = (struct selection){ .filter = then, .filter_nr = 2 };
	cr_assert_eq(snapshot_filter_traces(once, &options, &twice, NULL), 0);
	DATA_EXPECT("twice", NULL, twice, &(struct engine_options){}, { "a.py:5", 102, 2 },
		    { "a.py:2", 30, 3 });
	snapshot__close(once);
	snapshot__close(twice);
	data_release(&data);
}

Test(engine_filters, apply_to_both_snapshots_of_a_diff)
{
	static const struct filter filter[] = { IN("a.py", DOMAIN(1)) };
	struct engine_options options = { .select = { .filter = filter, .filter_nr = 1 } };
	struct data_snapshot data = DATA_SNAPSHOT(traces), empty = data_snapshot(NULL, 0, 0);

	DATA_EXPECT("gone", data.snapshot, empty.snapshot, &options, { "a.py:5", 0, 0, -2, -1 });
	DATA_EXPECT("new", empty.snapshot, data.snapshot, &options, { "a.py:5", 2, 1, 2, 1 });
	data_release(&data);
	data_release(&empty);
}

/* Filters as the command line writes them. */

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_filter(const struct filter *a, const struct filter *b)
{
	return a->inclusive == b->inclusive && a->all_frames == b->all_frames &&
	       a->has_lineno == b->has_lineno && a->lineno == b->lineno &&
	       a->has_domain == b->has_domain && a->domain == b->domain &&
	       same_text(a->domain_name, b->domain_name) &&
	       same_text(a->filename_pattern, b->filename_pattern) &&
	       same_text(a->function_pattern, b->function_pattern) &&
	       same_text(a->object_pattern, b->object_pattern);
}

#define ANY_FILE(n) { .has_lineno = true, .lineno = (n) }
#define FILE(pattern, ...) { .filename_pattern = pattern, __VA_ARGS__ }

static const struct {
	const char *spec;
	struct filter filter;
} meanings[] = {
	{ "a.c", FILE("a.c") },
	{ "*/src/a b.c", FILE("*/src/a b.c") },
	{ "a.c:12", FILE("a.c", LINE(12)) },
	{ "a.c:0", FILE("a.c", LINE(0)) },
	{ "a.c:007", FILE("a.c", LINE(7)) },
	{ "a.c:18446744073709551615", FILE("a.c", LINE(UINT64_MAX)) },
	{ "a.c:", FILE("a.c:") },
	{ "a.c:1x", FILE("a.c:1x") },
	{ "a.c:-1", FILE("a.c:-1") },
	{ "c:\\a.c", FILE("c:\\a.c") },
	{ "a:1:2", FILE("a:1", LINE(2)) },
	{ "a.c:12,all-frames", FILE("a.c", LINE(12), .all_frames = true) },
	{ "a.c,all-frames", FILE("a.c", .all_frames = true) },
	{ "a.c,all_frames", FILE("a.c", .all_frames = true) },
	{ "a.c,line=3", FILE("a.c", LINE(3)) },
	{ "a.c:3,domain=1", FILE("a.c", LINE(3), .has_domain = true, .domain = 1) },
	{ "a,b.c", FILE("a,b.c") },
	{ "a,b.c:5", FILE("a,b.c", LINE(5)) },
	{ "a,fucntion=x", FILE("a,fucntion=x") },
	{ "a,all-framesx", FILE("a,all-framesx") },
	{ "a,all-frames=1", FILE("a,all-frames=1") },
	{ "all-framesx", FILE("all-framesx") },
	{ "a,", FILE("a,") },
	{ ",a", FILE(",a") },
	{ "A=b.c", FILE("A=b.c") },
	{ "a/b=c", FILE("a/b=c") },
	{ "=b", FILE("=b") },
	{ "file", FILE("file") },
	{ "file:5", FILE("file", LINE(5)) },
	{ "*:5", FILE("*", LINE(5)) },

	{ "file=a.c", FILE("a.c") },
	{ "file=a.c:12", FILE("a.c:12") },
	{ "file=a.c:12,line=3", FILE("a.c:12", LINE(3)) },
	{ "file=", FILE("") },
	{ "file=,line=0", FILE("", LINE(0)) },
	{ "file=file=x", FILE("file=x") },
	{ "file=fucntion=x", FILE("fucntion=x") },
	{ "file=a,b,all-frames,line=1", FILE("a,b", LINE(1), .all_frames = true) },
	{ "file=a,file", FILE("a,file") },
	{ "line=5", ANY_FILE(5) },
	{ "line=0", ANY_FILE(0) },
	{ "line=18446744073709551615", ANY_FILE(UINT64_MAX) },
	{ "domain=3", { .has_domain = true, .domain = 3 } },
	{ "domain=0", { .has_domain = true } },
	{ "domain=pool", { .has_domain = true, .domain_name = "pool" } },
	{ "domain=4294967295", { .has_domain = true, .domain = UINT32_MAX } },
	{ "function=std::map<int, int>::find", { .function_pattern = "std::map<int, int>::find" } },
	{ "function=f:5", { .function_pattern = "f:5" } },
	{ "function=f,line=5", { .function_pattern = "f", LINE(5) } },
	{ "object=*/libc.so*", { .object_pattern = "*/libc.so*" } },
	{ "object=/a,function=f,file=x,line=1,domain=2,all-frames",
	  { .object_pattern = "/a", .function_pattern = "f", .filename_pattern = "x", LINE(1),
	    .has_domain = true, .domain = 2, .all_frames = true } },
	{ "all-frames,line=5", { LINE(5), .all_frames = true } },
	{ "all-frames,file=a.c:5", FILE("a.c:5", .all_frames = true) },
};

Test(engine_filter_parse, accepts_valid_filters)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		struct filter want = meanings[i].filter, filter = {};
		struct reason why = {};

		for (int inclusive = 0; inclusive < 2; inclusive++) {
			want.inclusive = inclusive;
			cr_expect_eq(filter_parse(meanings[i].spec, inclusive, &filter, &why), 0,
				     "\"%s\": %s", meanings[i].spec, why.text);
			cr_expect(same_filter(&filter, &want), "\"%s\": file \"%s\", line %lu",
				  meanings[i].spec, filter.filename_pattern, filter.lineno);
			filter_release(&filter);
		}
	}
}

Test(engine_filter_parse, refuses_invalid_filters)
{
	static const struct {
		const char *spec, *why;
	} rows[] = {
		{ "", "empty" },
		{ ":5", "'*:5' is line 5 of any file" },
		{ ":5,all-frames", "'*:5'" },
		{ ",line=5", "empty" },
		{ ",all-frames", "empty" },
		{ "fucntion=x", "unknown key 'fucntion'; there are file, line, domain, function, "
				"object and all-frames; a file with '=' in its name is file=NAME" },
		{ "all-frames=1", "unknown key 'all-frames'" },
		{ "fucntion=x,line=5", "unknown key 'fucntion'" },
		{ "files=", "unknown key 'files'" },
		{ "line=", "whole number" },
		{ "line=x", "whole number" },
		{ "line=-1", "whole number" },
		{ "line=+1", "whole number" },
		{ "line= 1", "whole number" },
		{ "line=1.5", "whole number" },
		{ "line=0x10", "whole number" },
		{ "line=1,2", "\"1,2\"" },
		{ "line=18446744073709551616", "2^64" },
		{ "a.c:18446744073709551616", "2^64" },
		{ "domain=", "whole number" },
		{ "domain=-1", "\"-1\"" },
		{ "domain=4294967296", "2^32" },
		{ "file=a,file=b", "twice" },
		{ "a,file=b", "twice" },
		{ "a:1,line=1", "twice" },
		{ "line=1,line=1", "twice" },
		{ "all-frames,line=1,all-frames", "twice" },
		{ "domain=1,domain=2", "twice" },
		{ "all-frames", "all-frames needs a file" },
		{ "all-frames,domain=1", "all-frames needs a file" },
		{ "domain=1,all-frames", "all-frames needs a file" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct filter filter = { .lineno = 42 };
		struct reason why = {};

		cr_expect_eq(filter_parse(rows[i].spec, true, &filter, &why), -EINVAL, "\"%s\"",
			     rows[i].spec);
		cr_expect(strstr(why.text, rows[i].why), "\"%s\": %s", rows[i].spec, why.text);
		cr_expect(!filter.owned && filter.lineno == 42, "outputs are untouched on failure");
		cr_expect_eq(filter_parse(rows[i].spec, true, &filter, NULL), -EINVAL);
	}
}

Test(engine_filter_parse, reports_an_unknown_key_of_any_length)
{
	char spec[2000];
	struct filter filter;
	struct reason why = {};

	memset(spec, 'x', sizeof(spec));
	strcpy(spec + sizeof(spec) - 3, "=y");
	cr_expect_eq(filter_parse(spec, true, &filter, &why), -EINVAL);
	cr_expect(strstr(why.text, "file=NAME"), "%s", why.text);
}
