// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Lists of a process's code, from its mappings and the unwind tables of its files (sources/code_list.h). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/array.h"
#include "books_fixture.h"
#include "collect/sources/code_list.h"
#include "collect/target/target.h"
#include "collect/unwind/unwind_tables.h"
#include "exact/known_code.h"
#include "exact/native_rules.h"

/* Objects of the process: a program with two segments, an allocator, a sampler with copies of its pages, a file without a table. */
enum { PROGRAM, ALLOCATOR, SAMPLER, PLAIN, OBJECTS };

static struct made_books made;
static struct known_code *known;
static struct code_lists lists;
static struct target target;
static struct objects objects;
static struct object object[OBJECTS], *object_at[OBJECTS];
static struct unwind_tables tables;
static uint64_t *slab;

#define WORDS_AT (UNWIND_SLAB_WORDS - 2) /* they lie in two slabs */

static void make_table(uint32_t i, uint32_t words_at)
{
	struct unwind_table_entry *entry = &tables.entry[i];

	*entry = (struct unwind_table_entry){ .state = UNWIND_TABLE_THERE, .words_at = words_at, .word_nr = 4 };
	entry->object = (struct unwind_object){
		.page_nr = 1, .page_at = words_at, .rule_at = words_at + 1, .row_at = words_at + 3, .segment_nr = 1,
		.segment = { { .offset = 0x1000, .end = 0x3000, .delta = 0x400000 } },
	};
	for (int k = 0; k < 4; k++)
		slab[words_at + k] = words_at + k;
}

static void begin_lists(void)
{
	make_file_of_books(&made);
	MADE_HEAD(&made)->kind = BOOKS_OF_MALLOC;
	open_made_books(&made);
	cr_assert_eq(known_code__open(made.books, 64, &known), 0);
	slab = calloc(2 * UNWIND_SLAB_WORDS, sizeof(*slab));
	tables.slab[0] = slab;
	tables.slab[1] = slab + UNWIND_SLAB_WORDS;
	tables.entry = calloc(OBJECTS, sizeof(*tables.entry));
	tables.entry_nr = OBJECTS;
	make_table(PROGRAM, WORDS_AT);
	tables.entry[PROGRAM].object.segment_nr = 2;
	tables.entry[PROGRAM].object.segment[1] = (struct unwind_segment){ .offset = 0x4000, .end = 0x4800, .delta = 0x600000 };
	make_table(ALLOCATOR, WORDS_AT + 8);
	tables.entry[SAMPLER].state = tables.entry[PLAIN].state = UNWIND_TABLE_NONE;
	for (int i = 0; i < OBJECTS; i++)
		object_at[i] = &object[i];
	object[SAMPLER].copies = (struct unwind_copies){ .offset = 0x1000, .original = 0x701000 };
	objects = (struct objects){ .object = object_at, .object_nr = OBJECTS };
	target.mappings.objects = &objects;
	target.identity.pid = getpid();
}

static void end_lists(void)
{
	known_code__close(known);
	release_made_books(&made);
	code_lists_release(&lists);
	mappings_release(&target.mappings);
	free(tables.entry);
	free(slab);
}

TestSuite(exact_lists, .init = begin_lists, .fini = end_lists);

static void map_at(uint64_t start, uint64_t end, uint64_t offset, uint32_t of)
{
	const struct mapping mapping = { .start = start, .end = end, .offset = offset, .object = of };

	cr_assert_eq(array_push(&target.mappings, mapping, mapping), 0);
}

static const struct books_known *publish_list(void)
{
	cr_assert_eq(code_lists_publish(&lists, known, &target, &tables), 0);
	return MADE_AT(&made, struct books_known, BOOKS_AT_KNOWN + MADE_HEAD(&made)->known_nr % 2 * BOOKS_KNOWN_BYTES);
}

static void want(uint64_t code, uint64_t stack)
{
	const struct code_news news = { .wanted_code = code, .wanted_stack = stack };

	cr_assert_eq(code_lists_want(&lists, &news), 0);
}

static void expect_region(const struct books_known *list, uint64_t address, uint64_t start, uint64_t end, uint32_t page_nr, uint64_t delta)
{
	const struct books_region *region = find_region(list, address);

	cr_assert(region, "%#lx", address);
	cr_expect_eq(region->start, start, "%#lx: from %#lx", address, region->start);
	cr_expect_eq(region->end, end, "%#lx: to %#lx", address, region->end);
	cr_expect_eq(region->page_nr, page_nr, "%#lx", address);
	cr_expect_eq(region->delta, delta, "%#lx: %#lx", address, region->delta);
}

Test(exact_lists, segments_are_regions)
{
	const struct books_known *list;
	const struct books_region *region;
	const uint64_t *words = MADE_AT(&made, uint64_t, BOOKS_AT_TABLES);

	map_at(0x10000, 0x15000, 0, PROGRAM);
	list = publish_list();
	expect_region(list, 0x10000, 0x10000, 0x11000, 0, -UINT64_C(0x10000));
	expect_region(list, 0x11000, 0x11000, 0x13000, 1, 0x400000 - 0x10000);
	expect_region(list, 0x13abc, 0x13000, 0x14000, 0, -UINT64_C(0x10000));
	expect_region(list, 0x14000, 0x14000, 0x14800, 1, 0x600000 - 0x10000);
	expect_region(list, 0x14fff, 0x14800, 0x15000, 0, -UINT64_C(0x10000));
	region = find_region(list, 0x11000);
	cr_expect_eq(words[region->page_at], WORDS_AT);
	cr_expect_eq(words[region->rule_at], WORDS_AT + 1);
	cr_expect_eq(words[region->row_at], WORDS_AT + 3, "the words of both slabs");
	cr_expect_eq(find_region(list, 0x14000)->page_at, region->page_at, "once for a file");
}

Test(exact_lists, code_without_a_table_is_there)
{
	const struct books_known *list;

	map_at(0x10000, 0x12000, 0x5000, PLAIN);
	map_at(0x20000, 0x21000, 0, OBJECT_NONE);
	map_at(0x21000, 0x22000, 0, OBJECT_NONE);
	map_at(0x30000, 0x31000, 0, OBJECT_GONE);
	list = publish_list();
	expect_region(list, 0x10000, 0x10000, 0x12000, 0, 0x5000 - 0x10000);
	expect_region(list, 0x21fff, 0x20000, 0x22000, 0, 0);
	cr_expect_eq(find_region(list, 0x20000)->first_page, UNWIND_NO_TABLE);
	cr_expect_null(find_region(list, 0x30000));
	cr_expect_eq(list->region_nr, 2);
}

Test(exact_lists, pages_of_a_sampler_have_the_rules_of_their_originals)
{
	const struct books_known *list;

	map_at(0x700000, 0x703000, 0, ALLOCATOR);
	map_at(0x800000, 0x802000, 0, SAMPLER);
	list = publish_list();
	expect_region(list, 0x800fff, 0x800000, 0x801000, 0, -UINT64_C(0x800000));
	expect_region(list, 0x801000, 0x801000, 0x802000, 1, 0x400000 + 0x1000 - 0x801000);
	cr_expect_eq(find_region(list, 0x801000)->row_at, find_region(list, 0x701000)->row_at);
}

Test(exact_lists, unmapped_code_is_replaced)
{
	map_at(0x10000, 0x11000, 0, PLAIN);
	map_at(0x700000, 0x703000, 0, ALLOCATOR);
	publish_list();
	target.mappings.reading++;
	target.mappings.mapping[1].seen++;
	cr_expect_null(find_region(publish_list(), 0x10000));
	cr_expect_eq(MADE_HEAD(&made)->replaced_nr, 1);
}

/* Until there is code, or code was unmapped. */
Test(exact_lists, pages_without_code_are_noted)
{
	const struct books_known *list;

	map_at(0x700000, 0x703000, 0, ALLOCATOR);
	want(0x123456, 0);
	list = publish_list();
	expect_region(list, 0x123fff, 0x123000, 0x124000, 0, 0);
	cr_expect_eq(find_region(list, 0x123000)->first_page, UNWIND_NO_CODE);
	want(0x701234, 0);
	expect_region(publish_list(), 0x701234, 0x701000, 0x703000, 1, 0x400000 - 0x700000);
	for (uint64_t i = 0; i < 3 * STRANGE_PAGES; i++)
		want(0x10000000 + i * BOOKS_PAGE, 0);
	cr_expect_leq(publish_list()->region_nr, STRANGE_PAGES + 2);
	cr_assert_eq(code_lists_want(&lists, &(struct code_news){ .has_closed = true, .wanted_code = 0x555555 }), 0);
	cr_expect_null(find_region(publish_list(), 0x555555));
	cr_expect_leq(publish_list()->region_nr, 2);
}

Test(exact_lists, stacks_are_ranges_while_they_are_mapped)
{
	char *stack = mmap(NULL, 3 * BOOKS_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct books_known *list;
	uint64_t at = (uint64_t)stack;

	cr_assert_eq(mprotect(stack, BOOKS_PAGE, PROT_NONE), 0);
	want(0, at + BOOKS_PAGE + 8);
	want(0, at + BOOKS_PAGE + 16);
	want(0, at + 8); /* no memory that can be read */
	list = publish_list();
	cr_assert_eq(list->range_nr, 1);
	cr_expect_eq(list->range[0].start, at + BOOKS_PAGE);
	cr_expect_geq(list->range[0].end, at + 3 * BOOKS_PAGE);
	cr_assert_eq(mprotect(stack, 3 * BOOKS_PAGE, PROT_NONE), 0);
	cr_expect_eq(publish_list()->range_nr, 0);
	munmap(stack, 3 * BOOKS_PAGE);
}
