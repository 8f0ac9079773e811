// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Hooks of an exact recording: their memory file, and where they may be put. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "exact/books.h"
#include "inject/hooks.h"
#include "inject/target_maps.h"

#define START UINT64_C(0x100000000)

static struct maps_line lines[] = {
	{ .start = 0x400000, .end = 0x500000, .perms = "r-xp", .dev = 8, .inode = 4711, .path = "/usr/bin/python3" },
	{ .start = 0x500000, .end = 0x520000, .perms = "rw-p", .dev = 8, .inode = 4711, .path = "/usr/bin/python3" },
	{ .start = 0x520000, .end = 0x530000, .perms = "rw-p", .path = "" },
	{ .start = 0x530000, .end = 0x540000, .perms = "rw-p", .path = "" },
	{ .start = 0x540000, .end = 0x550000, .perms = "rw-p", .path = "[heap]" },
	{ .start = 0x560000, .end = 0x570000, .perms = "rw-p", .path = "" },
	{ .start = 0x570000, .end = 0x580000, .perms = "rw-s", .dev = 8, .inode = 4711, .path = "/usr/bin/python3" },
	{ .start = 0x580000, .end = 0x590000, .perms = "rw-p", .dev = 9, .inode = 4711, .path = "/usr/lib/other.so" },
	{ .start = 0x590000, .end = 0x5a0000, .perms = "rw-p", .path = "" },
};

static const struct target_maps maps = { .line = lines, .line_nr = ARRAY_SIZE(lines) };

static const struct table_row {
	uint64_t address;
	bool is_good;
} tables[] = {
	{ 0x500008, true },   /* .data */
	{ 0x51fff8, true },
	{ 0x520010, true },   /* .bss */
	{ 0x53fff8, true },   /* its second part */
	{ 0x500004, false },  /* on two words */
	{ 0x400008, false },  /* code */
	{ 0x540008, false },  /* the heap */
	{ 0x550008, false },  /* nothing */
	{ 0x560008, false },  /* behind a hole */
	{ 0x570008, false },  /* shared */
	{ 0x580008, false },  /* another file's, and what follows it */
	{ 0x590008, false },
};

Test(inject_hooks, go_into_tables_of_the_program_only)
{
	const struct inject_python python = { .dev = 8, .inode = 4711 };

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		cr_expect_eq(is_table_memory(&maps, &python, tables[i].address), tables[i].is_good, "row %zu", i);
}

Test(inject_hooks, find_room_however_far)
{
	uint64_t at = target_maps_room(&maps, getpid(), 0x500000, BOOKS_BYTES);

	cr_expect_eq(at, 0, "there is nothing behind the last mapping, and too little between: %#lx", at);
	lines[ARRAY_SIZE(lines) - 1].start = UINT64_C(0x7fff00000000);
	lines[ARRAY_SIZE(lines) - 1].end = UINT64_C(0x7fff00001000);
	at = target_maps_room(&maps, getpid(), 0x500000, BOOKS_BYTES);
	cr_expect(at >= 0x590000 && at % BOOKS_PAGE == 0 && target_maps_are_free(&maps, at, at + BOOKS_BYTES), "%#lx", at);
	cr_expect_eq(target_maps_gap(&maps, getpid(), 0x500000, 0x501000, BOOKS_BYTES), 0, "within 2 GiB");
}

static struct inject_python python_of_rows(bool has_tracer)
{
	struct inject_python python = { .dev = 8, .inode = 4711, .hooks = { .key_at = 0x500400, .key_is = 7 }, .tid_at = PYTHON_HOOKS_TID_AT };

	if (has_tracer)
		python.tracer = (struct inject_word){ 0x500800, 0x400800 };

	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++)
		for (int i = 0; i < PYTHON_OPERATION_NR; i++) {
			python.word[domain][i].address = 0x500000 + 0x40 * domain + 8 * i;
			python.word[domain][i].was = 0x400000 + 0x40 * domain + 8 * i;
		}
	return python;
}

/* Frees first, mallocs last, and objects behind them; each pointer leads to a function of its own. */
static void check_table(const struct injected_table *table, const struct inject_python *python)
{
	static const int order[] = { PYTHON_FREE, PYTHON_REALLOC, PYTHON_CALLOC, PYTHON_MALLOC };

	cr_assert_eq(table->word_nr, INJECTED_WORDS_MAX - !python->tracer.address);
	for (uint32_t i = 0; i < table->word_nr; i++) {
		const struct inject_word *word = i == 12 ? &python->tracer : &python->word[i % PYTHON_DOMAIN_NR][order[i / PYTHON_DOMAIN_NR]];

		cr_expect_eq(table->word[i].address, word->address, "word %u", i);
		cr_expect_eq(table->word[i].was, word->was, "word %u", i);
		cr_expect(table->word[i].put > table->start && table->word[i].put < table->text_end, "word %u", i);
		for (uint32_t k = 0; k < i; k++)
			cr_expect_neq(table->word[i].put, table->word[k].put, "words %u and %u", k, i);
	}
	cr_expect_eq(memcmp(table->magic, INJECTED_HOOKS_MAGIC, sizeof(table->magic)), 0);
	cr_expect_eq(table->page_nr + table->function_nr + table->slot_nr, 0, "of a sampler");
	cr_expect_eq(table->books_end - table->books_start, BOOKS_BYTES);
	cr_expect_eq(table->books_end, table->end);
	cr_expect_eq(table->off_at, offsetof(struct books_head, now));
	cr_expect(table->on >= table->text_end && table->on + PYTHON_HOOKS_ON_BYTES <= table->books_start &&
		  table->on % PYTHON_HOOKS_ON_BYTES == 0, "%#lx", table->on);
}

static void check_file_of_hooks(bool has_tracer)
{
	struct inject_python python = python_of_rows(has_tracer);
	const struct python_hooks *hooks;
	struct injected_image image;
	struct injected_file file;
	struct reason why = {};

	cr_assert_eq(injected_file_open(INJECT_HOOKS, &file), 0);
	cr_assert_eq(hooks_image_build(&file, &python, START, &image, &why), 0, "%s", why.text);
	check_table(image.table, &python);
	cr_expect_eq(image.table->end - image.table->start, hooks_image_room(&file));
	hooks = injected_image_at(&image, &file, injected_file_symbol(&file, "python_hooks", NULL));
	cr_assert_not_null(hooks);
	cr_expect_eq(hooks->books, image.table->books_start);
	cr_expect_eq(hooks->key_at, 0x500400);
	for (int domain = 0; domain < PYTHON_DOMAIN_NR; domain++)
		for (int i = 0; i < PYTHON_OPERATION_NR; i++)
			cr_expect_eq(hooks->old[domain][i], python.word[domain][i].was);
	cr_expect_eq(hooks->old_tracer, python.tracer.was);
	injected_image_release(&image);
}

Test(inject_hooks, have_a_file_that_says_all)
{
	check_file_of_hooks(false);
	check_file_of_hooks(true);
}
