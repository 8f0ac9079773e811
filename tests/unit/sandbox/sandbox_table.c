// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Unwind tables that another process has made. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "sandbox_fixture.h"
#include "unwind/unwind_table.h"

/* ---- are the same ---- */

static const char *const files[] = {
	"/proc/self/exe", "/bin/sh", "/usr/bin/python3", "/etc/passwd", "/dev/null", "/",
};

static void expect_same_table(const struct unwind_table *a, const struct unwind_table *b)
{
	cr_expect_eq(a->first_page, b->first_page);
	cr_assert_eq(a->page_nr, b->page_nr);
	cr_assert_eq(a->rule_nr, b->rule_nr);
	cr_assert_eq(a->row_nr, b->row_nr);
	cr_expect(!memcmp(a->page, b->page, (a->page_nr + 1) * sizeof(*a->page)));
	cr_expect(!memcmp(a->rule, b->rule, a->rule_nr * sizeof(*a->rule)));
	cr_expect(!memcmp(a->row, b->row, a->row_nr * sizeof(*a->row)));
	cr_expect_eq(a->segment_nr, b->segment_nr);
	cr_expect(!memcmp(a->segment, b->segment, sizeof(a->segment)));
	cr_expect_eq(a->fde_nr, b->fde_nr);
	cr_expect_eq(a->unsupported_nr, b->unsupported_nr);
}

Test(sandbox_table, equals_the_table_made_without_a_worker)
{
	struct sandbox *sandbox = parser_with(NULL, 0);

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		struct unwind_table *ours = NULL, *theirs = NULL;
		struct reason why = {}, their_why = {};
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		int err = unwind_table__from_file(fd, &ours, &why);

		cr_expect_eq(sandbox__unwind_table(sandbox, fd, &theirs, &their_why), err, "%s: %s",
			     files[i], their_why.text);
		cr_expect_str_eq(their_why.text, why.text);
		cr_assert(!ours == !theirs);
		if (ours)
			expect_same_table(ours, theirs);
		unwind_table__free(ours);
		unwind_table__free(theirs);
		close(fd);
	}
	sandbox__close(sandbox);
}

/* ---- are not believed ---- */

/* The answer really carries two words of pages, one rule and one row; each lie claims other numbers. */
static const struct lie {
	const char *name;
	int err; /* the error that follows */
	struct unwind_table table;
	uint32_t page_end;
	int claimed_err;
} lies[] = {
	{ "none", 0, { .page_nr = 1, .rule_nr = 1, .row_nr = 1 }, 1 },
	{ "pages that go too far", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = 1 }, 2 },
	{ "more pages", -EIO, { .page_nr = 2, .rule_nr = 1, .row_nr = 1 }, 1 },
	{ "all pages", -EIO, { .page_nr = UINT32_MAX, .rule_nr = 1, .row_nr = 1 }, 1 },
	{ "no pages", -EIO, { .page_nr = 0, .rule_nr = 1, .row_nr = 1 }, 1 },
	{ "more rules", -EIO, { .page_nr = 1, .rule_nr = 2, .row_nr = 1 }, 1 },
	{ "all rules", -EIO, { .page_nr = 1, .rule_nr = UINT32_MAX, .row_nr = 1 }, 1 },
	{ "no rules", -EIO, { .page_nr = 1, .rule_nr = 0, .row_nr = 1 }, 1 },
	{ "more rows", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = 2 }, 1 },
	{ "all rows", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = UINT32_MAX }, 1 },
	{ "no rows", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = 0 }, 0 },
	{ "too many segments", -EIO,
	  { .page_nr = 1, .rule_nr = 1, .row_nr = 1, .segment_nr = UNWIND_SEGMENTS_MAX + 1 }, 1 },
	{ "pointers", 0,
	  { .page_nr = 1, .rule_nr = 1, .row_nr = 1, .page = (void *)64, .row = (void *)64 }, 1 },
	{ "an error and a table", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = 1 }, 1, -ENODATA },
	{ "success above all", -EIO, { .page_nr = 1, .rule_nr = 1, .row_nr = 1 }, 1, 1 },
};

static const struct lie *lie; /* the reader's from its fork on */

/* The answer: two words of pages, one rule and one row. */
static struct unwind_table said = { .page_nr = 1, .rule_nr = 1, .row_nr = 1 };
static uint32_t said_page[2] = { 0, 1 };

static void say_table(int fd, void (*before)(int object), int err)
{
	static struct unwind_rule rule;
	static unwind_row row;

	parser_say(fd, &(struct parser_said){
		.kind = TABLE, .err = err, .piece_nr = 4, .before = before,
		.piece = { { &said, sizeof(said) }, { said_page, sizeof(said_page) }, { &rule, sizeof(rule) }, { &row, sizeof(row) } },
	});
}

static void tell(int fd)
{
	said = lie->table;
	said_page[1] = lie->page_end;
	say_table(fd, NULL, lie->claimed_err);
}

Test(sandbox_table, that_is_invalid_is_refused, .timeout = 600)
{
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		struct unwind_table *table = NULL;
		struct reason why = {};
		struct sandbox *sandbox;

		lie = &lies[i];
		sandbox = parser_with(tell, 0);
		cr_expect_eq(sandbox__unwind_table(sandbox, 0, &table, &why), lie->err, "%s: %s",
			     lie->name, why.text);
		cr_expect_eq(!table, !!lie->err, "%s", lie->name);
		cr_expect(!lie->err || strstr(why.text, "makes no sense"), "%s", why.text);
		unwind_table__free(table);
		sandbox__close(sandbox);
	}
}

/* ---- each reader that makes a table has read no other file before ---- */

/* Answers with the number of its earlier answers. */
static void count_tables(int)
{
	static uint32_t answers_nr; /* in the reader */

	said.first_page = answers_nr++;
}

static void count(int fd)
{
	say_table(fd, count_tables, 0);
}

Test(sandbox_table, comes_from_a_new_reader)
{
	struct sandbox *sandbox = parser_with(count, 0);
	int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);

	for (int i = 0; i < 3; i++) {
		struct unwind_table *table = NULL;

		cr_assert_eq(sandbox__unwind_table(sandbox, fd, &table, NULL), 0);
		cr_expect_eq(table->first_page, 0, "file %d", i);
		unwind_table__free(table);
	}
	close(fd);
	sandbox__close(sandbox);
}
