// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Filters as the command line writes them. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"

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
#define LINE(n) .has_lineno = true, .lineno = (n)

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
		{ "all-frames", "all-frames asks nothing" },
		{ "all-frames,domain=1", "all-frames asks nothing" },
		{ "domain=1,all-frames", "all-frames asks nothing" },
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
