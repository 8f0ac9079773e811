// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "engine.h"
#include "render.h"

/* Oldest first. */
static const struct frame_view stack[] = {
	{ .filename = "c.py", .lineno = 3 },
	{ .filename = "b.py", .lineno = 2 },
	{ .filename = "a.py", .lineno = 1 },
};

#define A "  File \"a.py\", line 1\n"
#define B "  File \"b.py\", line 2\n"
#define C "  File \"c.py\", line 3\n"

/* Lines of CPython 3.11's Traceback.format(limit, most_recent_first), joined. */
Test(render_traceback, limits_frames_like_python)
{
	static const struct {
		struct traceback_format_options options;
		const char *text;
	} cases[] = {
		{ {}, C B A },
		{ { .most_recent_first = true }, A B C },
		{ { .has_limit = true, .limit = 1 }, A },
		{ { .has_limit = true, .limit = 2 }, B A },
		{ { .has_limit = true, .limit = 2, .most_recent_first = true }, A B },
		{ { .has_limit = true, .limit = 3 }, C B A },
		{ { .has_limit = true, .limit = INT64_MAX }, C B A },
		{ { .has_limit = true, .limit = 0 }, "" },
		{ { .has_limit = true, .limit = -1 }, C B },
		{ { .has_limit = true, .limit = -1, .most_recent_first = true }, B C },
		{ { .has_limit = true, .limit = -2 }, C },
		{ { .has_limit = true, .limit = -3 }, "" },
		{ { .has_limit = true, .limit = -4 }, "" },
		{ { .has_limit = true, .limit = INT64_MIN }, "" },
		{ { .limit = 1 }, C B A },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = traceback_format(stack, ARRAY_SIZE(stack), &cases[i].options);

		cr_expect_str_eq(text, cases[i].text, "case %zu", i);
		free(text);
	}
}

Test(render_traceback, accepts_no_options_and_no_frames)
{
	char *text = traceback_format(stack, 1, NULL);

	cr_expect_str_eq(text, C);
	free(text);
	text = traceback_format(NULL, 0, NULL);
	cr_expect_str_eq(text, "");
	free(text);
}

/* ---- source lines ------------------------------------------------------------------------- */

static char dir[] = "/tmp/allocsnap-source-XXXXXX";

static void put(const char *name, const char *text, size_t len)
{
	char path[256];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	cr_assert(out && fwrite(text, 1, len, out) == len && !fclose(out));
}

static void make_dir(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(mkdir(path, 0700), 0);
}

static void make_link(const char *target, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	cr_assert_eq(symlink(target, path), 0);
}

static void make_tree(void)
{
	cr_assert_not_null(mkdtemp(dir));
	make_dir("below");
	make_dir("below/src");
	put("secret.c", "secret\n", 7);
}

static void remove_tree(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	cr_assert_eq(system(command), 0);
}

static char *format_one(const char *filename, uint32_t lineno)
{
	const struct frame_view frame = { .filename = filename, .lineno = lineno };
	struct traceback_format_options options = {};
	char path[256];

	snprintf(path, sizeof(path), "%s/below", dir);
	options.source_dir = path;
	return traceback_format(&frame, 1, &options);
}

/* want NULL: no line. */
static void expect_line(const char *filename, uint32_t lineno, const char *want)
{
	char *got = format_one(filename, lineno);
	const char *line = strchr(got, '\n') + 1;

	if (!want)
		cr_expect_str_eq(line, "", "%s:%u", filename, lineno);
	else
		cr_expect(!strncmp(line, "    ", 4) && !strncmp(line + 4, want, strlen(want)) &&
			  !strcmp(line + 4 + strlen(want), "\n"), "%s:%u: %s", filename, lineno,
			  line);
	free(got);
}

TestSuite(render_source, .init = make_tree, .fini = remove_tree);

Test(render_source, strips_and_counts_lines_like_python)
{
	static const char text[] = "\xef\xbb\xbf one\n\r\n\t three \f\v\x1c\rfour\r\nfive;\n\n\x01 "
				   "x\xff\nn\0l\nlast";

	put("below/src/a.c", text, sizeof(text) - 1);
	expect_line("src/a.c", 0, NULL);
	expect_line("src/a.c", 1, "one");
	expect_line("src/a.c", 2, NULL);
	expect_line("src/a.c", 3, "three");
	expect_line("src/a.c", 4, "four");
	expect_line("src/a.c", 5, "five;");
	expect_line("src/a.c", 6, NULL);
	expect_line("src/a.c", 7, "\x01 x\xff");
	expect_line("src/a.c", 8, NULL);
	expect_line("src/a.c", 9, "last");
	expect_line("src/a.c", 10, NULL);
	expect_line("src/a.c", UINT32_MAX, NULL);
}

Test(render_source, drops_leading_directories_until_a_file_exists)
{
	put("below/src/a.c", "in src\n", 7);
	put("below/a.c", "at the top\n", 11);
	make_dir("below/b.c");
	put("below/src/b.c", "b\n", 2);
	expect_line("/build/x/src/a.c", 1, "in src");
	expect_line("./src//./a.c", 1, "in src");
	expect_line("/build/x/a.c", 1, "at the top");
	expect_line("/build/../src/a.c", 1, "in src");
	expect_line("src/../a.c", 1, "at the top");
	expect_line("/src/a.c/", 1, NULL);
	expect_line("/build/b.c", 1, NULL);
	expect_line("none.c", 1, NULL);
	expect_line("", 1, NULL);
	expect_line("/", 1, NULL);
	expect_line("..", 1, NULL);
	expect_line("src/..", 1, NULL);
	expect_line("a.c/..", 1, NULL);
}

Test(render_source, reads_nothing_outside_its_directory)
{
	char outside[256];

	snprintf(outside, sizeof(outside), "%s/secret.c", dir);
	put("below/a.c", "inside\n", 7);
	make_link("../secret.c", "below/up.c");
	make_link(outside, "below/absolute.c");
	make_link("..", "below/dir");
	make_link("a.c", "below/good.c");
	make_link("loop.c", "below/loop.c");
	expect_line("../secret.c", 1, NULL);
	expect_line("src/../../secret.c", 1, NULL);
	expect_line(outside, 1, NULL);
	expect_line("up.c", 1, NULL);
	expect_line("absolute.c", 1, NULL);
	expect_line("dir/secret.c", 1, NULL);
	expect_line("loop.c", 1, NULL);
	expect_line("good.c", 1, "inside");
}

Test(render_source, reads_only_regular_files, .timeout = 600)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/below/pipe.c", dir);
	cr_assert_eq(mkfifo(path, 0600), 0);
	expect_line("pipe.c", 1, NULL);
	expect_line("src", 1, NULL);
	put("below/<x>", "x\n", 2);
	expect_line("<x>", 1, NULL);
}

/* The text has all characters that Python's str.strip() removes. */
Test(render_source, strips_all_white_space)
{
	const char text[] = " \t\x1c\u3000\u00a0 a\u2003b \u2029\xc2\x85\n\u3000\u2028\n";

	put("below/spaces.c", text, sizeof(text) - 1);
	expect_line("spaces.c", 1, "a\u2003b");
	expect_line("spaces.c", 2, NULL);
}

Test(render_source, survives_long_lines_and_paths, .timeout = 600)
{
	char *text = malloc(200000), *got;
	char name[32];

	memset(text, 'x', 100000);
	put("below/long.c", text, 100000);
	got = format_one("long.c", 1);
	cr_expect_eq(strlen(strchr(got, '\n') + 1), 4 + 100000 + 1);
	free(got);

	memset(text, 'a', 200000);
	for (size_t i = 1; i < 200000; i += 2)
		text[i] = '/';
	text[199999] = '\0';
	expect_line(text, 1, NULL);
	free(text);

	for (unsigned int i = 0; i < 200; i++) {
		snprintf(name, sizeof(name), "below/%u.c", i);
		put(name, name, strlen(name));
	}
	expect_line("199.c", 1, "below/199.c");
}

Test(render_source, reads_many_frames_of_many_files)
{
	enum { NR = 300 };
	struct frame_view frame[NR];
	struct traceback_format_options options = { .source_dir = dir };
	char name[NR][16], *text;

	for (unsigned int i = 0; i < NR; i++) {
		snprintf(name[i], sizeof(name[i]), "f%u.c", i % 100);
		put(name[i], "one\ntwo\n", 8);
		frame[i] = (struct frame_view){ .filename = name[i], .lineno = 1 + i % 2 };
	}
	text = traceback_format(frame, NR, &options);
	cr_expect_not_null(strstr(text, "\"f99.c\", line 2\n    two\n"
					"  File \"f0.c\", line 1\n    one\n"));
	free(text);
}

Test(render_source, reads_a_line_far_down)
{
	FILE *out;
	char path[256];

	snprintf(path, sizeof(path), "%s/below/far.c", dir);
	out = fopen(path, "w");
	for (unsigned int i = 1; i <= 1000; i++)
		fprintf(out, "line %u\n", i);
	fclose(out);
	expect_line("far.c", 64, "line 64");
	expect_line("far.c", 65, "line 65");
	expect_line("far.c", 66, "line 66");
	expect_line("far.c", 1000, "line 1000");
	expect_line("far.c", 1001, NULL);
}

Test(render_source, prints_no_lines_without_the_directory)
{
	const struct frame_view frame = { .filename = "a.c", .lineno = 1 };
	struct traceback_format_options options = { .source_dir = "/nowhere/at/all" };
	char *text = traceback_format(&frame, 1, &options);

	cr_expect_str_eq(text, "  File \"a.c\", line 1\n");
	free(text);
}
