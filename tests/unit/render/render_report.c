// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "render.h"
#include "render/clean.h"

static const struct frame_view stack[] = {
	{ .filename = "main.c", .lineno = 70, .function = "main;1", .object = "/bin/shop", .offset = 0x100 },
	{ .filename = "/lib/z.so", .object = "/lib/z.so", .offset = 0x8f0 },
	{ .filename = "a\n\xff.c", .lineno = 3, .function = "new<\"x\\\">", .object = "/bin/shop", .offset = 0x200 },
};

static struct statistic rows[] = {
	{ stack, 3, { 300, 3 }, { 200, 2 } },
	{ stack, 1, { 20, 2 }, { -5, 0 } },
	{ stack + 1, 1, { 1, 1 }, { 1, 1 } },
};

static struct statistics statistics = {
	.key_type = KEY_TRACEBACK,
	.statistic = rows,
	.statistic_nr = ARRAY_SIZE(rows),
	.total = { 321, 6 },
	.total_diff = { 196, 3 },
};

static char *rendered(const char *format, struct report report)
{
	const struct renderer *renderer = renderer_find(format, NULL);
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	report.statistics = &statistics;
	cr_assert_eq(renderer->report(out, &report), 0);
	cr_assert_eq(fclose(out), 0);
	return text;
}

static void expect(const char *format, struct report report, const char *want)
{
	char *text = rendered(format, report);

	cr_expect_str_eq(text, want);
	free(text);
}

Test(render_text, prints_the_most_recent_call_first)
{
	expect("text", (struct report){ .top = 1 },
	       "main.c:70: size=300 B, count=3, average=100 B\n"
	       "    new<\"x\\\"> at a\\x0a\\xff.c:3\n"
	       "    /lib/z.so+0x8f0\n"
	       "    main;1 at main.c:70\n"
	       "\n"
	       "… and 2 more (21 B in 3 blocks)\n"
	       "total: size=321 B, count=6\n");
}

Test(render_text, prints_the_oldest_call_first_on_request)
{
	expect("text", (struct report){ .top = 1, .oldest_first = true },
	       "main.c:70: size=300 B, count=3, average=100 B\n"
	       "    main;1 at main.c:70\n"
	       "    /lib/z.so+0x8f0\n"
	       "    new<\"x\\\"> at a\\x0a\\xff.c:3\n"
	       "\n"
	       "… and 2 more (21 B in 3 blocks)\n"
	       "total: size=321 B, count=6\n");
}

Test(render_text, prints_a_diff_of_lines)
{
	statistics.key_type = KEY_LINENO;
	statistics.is_diff = true;
	expect("text", (struct report){ .top = 2 },
	       "main.c:70: size=300 B (+200 B), count=3 (+2), average=100 B\n"
	       "    in main;1\n"
	       "main.c:70: size=20 B (-5 B), count=2 (+0), average=10 B\n"
	       "    in main;1\n"
	       "… and 1 more (size=1 B (+1 B), count=1 (+1))\n"
	       "total: size=321 B (+196 B), count=6 (+3)\n");
}

/* Lines of a hostile file are cleaned, too. */
Test(render_text, prints_source_lines_below_their_frames)
{
	char dir[] = "/tmp/allocsnap-render-XXXXXX", path[64];
	FILE *out;

	cr_assert_not_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/main.c", dir);
	out = fopen(path, "w");
	for (int i = 1; i < 70; i++)
		putc('\n', out);
	fputs("\treturn run(\"\033[2J\");\n", out);
	fclose(out);
	expect("text", (struct report){ .top = 1, .source_dir = dir },
	       "main.c:70: size=300 B, count=3, average=100 B\n"
	       "    new<\"x\\\"> at a\\x0a\\xff.c:3\n"
	       "    /lib/z.so+0x8f0\n"
	       "    main;1 at main.c:70\n"
	       "        return run(\"\\x1b[2J\");\n"
	       "\n"
	       "… and 2 more (21 B in 3 blocks)\n"
	       "total: size=321 B, count=6\n");
	statistics.key_type = KEY_LINENO;
	rows[0].nframe = 1;
	expect("text", (struct report){ .top = 1, .source_dir = dir },
	       "main.c:70: size=300 B, count=3, average=100 B\n"
	       "    in main;1\n"
	       "        return run(\"\\x1b[2J\");\n"
	       "… and 2 more (21 B in 3 blocks)\n"
	       "total: size=321 B, count=6\n");
	unlink(path);
	rmdir(dir);
}

Test(render_folded, prints_one_sorted_line_for_each_traceback)
{
	expect("folded", (struct report){},
	       "/lib/z.so+0x8f0 1\n"
	       "main:1 20\n"
	       "main:1;/lib/z.so+0x8f0;new<\"x\\\"> 300\n");
	rows[2] = rows[1];
	expect("folded", (struct report){},
	       "main:1 40\n"
	       "main:1;/lib/z.so+0x8f0;new<\"x\\\"> 300\n");
}

Test(render_folded, has_one_number_of_a_diff)
{
	statistics.is_diff = true;
	expect("folded", (struct report){},
	       "/lib/z.so+0x8f0 1\n"
	       "main:1;/lib/z.so+0x8f0;new<\"x\\\"> 200\n");
	expect("folded", (struct report){ .engine = &(struct engine_options){ .sort = SORT_SHRINK } }, "main:1 5\n");
}

Test(render_json, is_one_object_with_its_keys_in_order)
{
	const char *warning[] = { "old \033" };

	statistics.is_diff = true;
	expect("json", (struct report){ .top = 1, .warning = warning, .warning_nr = 1 },
	       "{\"schema\":\"allocsnap.diff/2\",\"key_type\":\"traceback\",\"cumulative\":false,"
	       "\"total\":{\"size\":321,\"count\":6,\"size_diff\":196,\"count_diff\":3},"
	       "\"warnings\":[\"old \\\\x1b\"],\"losses\":{},\"statistics\":[{\"traceback\":["
	       "{\"filename\":\"a\\\\x0a\\\\xff.c\",\"lineno\":3,"
	       "\"function\":\"new<\\\"x\\\\\\\">\",\"object\":\"/bin/shop\",\"offset\":512},"
	       "{\"filename\":\"/lib/z.so\",\"lineno\":0,\"object\":\"/lib/z.so\",\"offset\":2288},"
	       "{\"filename\":\"main.c\",\"lineno\":70,\"function\":\"main;1\","
	       "\"object\":\"/bin/shop\",\"offset\":256}],"
	       "\"size\":300,\"count\":3,\"size_diff\":200,\"count_diff\":2}]}\n");
}

/* A group of an extension: a text and no frames. */
static void use_keys(void)
{
	static struct statistic keyed[] = {
		{ .cost = { 300, 3 }, .diff = { 200, 2 }, .key = "g\x1b_new;<T>" },
		{ .cost = { 21, 3 }, .diff = { -5, 0 }, .key = "<unknown>" },
	};

	statistics.key_type = KEY_FUNCTION;
	statistics.statistic = keyed;
	statistics.statistic_nr = ARRAY_SIZE(keyed);
}

Test(render_key, names_groups_in_every_format, .init = use_keys)
{
	expect("text", (struct report){ .top = 1, .source_dir = "/" },
	       "g\\x1b_new;<T>: size=300 B, count=3, average=100 B\n"
	       "… and 1 more (21 B in 3 blocks)\n"
	       "total: size=321 B, count=6\n");
	expect("folded", (struct report){}, "<unknown> 21\ng\\x1b_new:<T> 300\n");
	expect("json", (struct report){ .top = 1 },
	       "{\"schema\":\"allocsnap.stats/2\",\"key_type\":\"function\",\"cumulative\":false,"
	       "\"total\":{\"size\":321,\"count\":6},\"warnings\":[],\"losses\":{},"
	       "\"statistics\":[{\"key\":\"g\\\\x1b_new;<T>\",\"traceback\":[],"
	       "\"size\":300,\"count\":3}]}\n");
	statistics.is_diff = true;
	expect("text", (struct report){},
	       "g\\x1b_new;<T>: size=300 B (+200 B), count=3 (+2), average=100 B\n"
	       "<unknown>: size=21 B (-5 B), count=3 (+0), average=7 B\n"
	       "total: size=321 B (+196 B), count=6 (+3)\n");
}

Test(render_json, integers_are_exact)
{
	char *text;
	json_t *json, *total;

	statistics.total = (struct cost){ INT64_MAX, 9007199254740993 };
	text = rendered("json", (struct report){});
	json = json_loads(text, 0, NULL);
	cr_assert_not_null(json);
	total = json_object_get(json, "total");
	cr_expect_eq(json_integer_value(json_object_get(total, "size")), INT64_MAX);
	cr_expect_eq(json_integer_value(json_object_get(total, "count")), 9007199254740993);
	json_decref(json);
	free(text);
}

Test(render_json, is_valid_without_rows)
{
	char *text;
	json_t *json;

	statistics.statistic_nr = 0;
	text = rendered("json", (struct report){});
	json = json_loads(text, 0, NULL);
	cr_expect_eq(json_array_size(json_object_get(json, "statistics")), 0);
	json_decref(json);
	free(text);
}

Test(render_table, lists_the_formats_in_its_error)
{
	struct reason why;

	cr_expect_null(renderer_find("xml", &why));
	cr_expect_str_eq(why.text, "'xml' is none of text, json, folded, pprof, otlp");
}

Test(render, returns_an_error_when_the_disk_is_full)
{
	static const char *const formats[] = { "text", "json", "folded", "pprof" };
	struct report report = { .statistics = &statistics };

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		FILE *out = fopen("/dev/full", "w");

		setvbuf(out, NULL, _IONBF, 0);
		cr_expect_eq(renderer_find(formats[i], NULL)->report(out, &report), -ENOSPC, "%s",
			     formats[i]);
		fclose(out);
	}
}

Test(render_clean, escapes_a_long_text_without_cutting_it)
{
	char *text = malloc(100001), *clean;

	memset(text, '\x01', 100000);
	text[100000] = '\0';
	clean = clean_copy(text);
	cr_expect_eq(strlen(clean), 400000);
	free(clean);
	free(text);
}
