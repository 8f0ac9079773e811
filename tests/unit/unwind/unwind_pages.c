// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tables: pages, the order of functions, and tables of real objects. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind_fixture.h"

static struct image image;
static struct unwind_table *table;

static void begin(void)
{
	image_begin(&image);
	image_usual_cie(&image);
}

static void end(void)
{
	unwind_table__free(table);
}

TestSuite(unwind_pages, .init = begin, .fini = end);

#define ADVANCE(n) (DW_CFA_advance_loc | (n))

Test(unwind_pages, begin_with_a_row)
{
	FDE(&image, 0x1ffff, 0x20002, ADVANCE(1), DW_CFA_def_cfa_offset, 16);
	table = image_table(&image);
	cr_expect_eq(table->first_page, 0);
	cr_assert_eq(table->page_nr, TEXT_SIZE >> UNWIND_PAGE_SHIFT);
	for (uint32_t page = 0; page < table->page_nr; page++)
		cr_expect_eq(UNWIND_ROW_ADDRESS(table->row[table->page[page]]), 0);
	expect_rule(table, 0x1fffe, NOTHING);
	expect_rule(table, 0x1ffff, SP_PLUS(8));
	expect_rule(table, 0x20000, SP_PLUS(16));
	expect_rule(table, 0x30000, SP_PLUS(16));
	expect_rule(table, 0x40000, SP_PLUS(16));
	expect_rule(table, 0x40001, NOTHING);
	cr_expect_eq(table->row_nr, table->page_nr + 2, "%u", table->row_nr);
}

Test(unwind_pages, hold_no_rules_outside_the_code)
{
	FDE(&image, TEXT_SIZE - 0x10, 0x10, 0);
	table = image_table(&image);
	expect_rule(table, TEXT_SIZE - 1, SP_PLUS(8));
	expect_rule(table, TEXT_SIZE, NOTHING);
	expect_rule(table, UINT64_MAX, NOTHING);
}

/* A row at every byte of a page: the search must reach each of them. */
Test(unwind_pages, may_have_a_row_at_every_byte)
{
	static uint8_t program[3 * UNWIND_PAGE_MASK];

	for (size_t i = 0; i < sizeof(program); i += 3)
		memcpy(program + i, (uint8_t[]){ ADVANCE(1), DW_CFA_def_cfa_offset, i / 3 % 100 }, 3);
	image_fde(&image, 0x20000, 0x10000, program, sizeof(program));
	table = image_table(&image);
	cr_expect_eq(table->page[3] - table->page[2], 1u << UNWIND_PAGE_SHIFT);
	expect_rule(table, 0x20000, SP_PLUS(8));
	for (uint32_t i = 1; i < 1u << UNWIND_PAGE_SHIFT; i++)
		expect_rule(table, 0x20000 + i, SP_PLUS((i - 1) % 100));
}

/* All rules beyond the maximum share the last place, which says unsupported. */
Test(unwind_pages, treat_rules_beyond_the_limit_as_unsupported)
{
	static uint8_t program[5 * 70000];

	for (uint32_t i = 0; i < 70000; i++)
		memcpy(program + 5 * i,
		       (uint8_t[]){ ADVANCE(1), DW_CFA_def_cfa_offset, 0x80 | (i & 0x7f),
				    0x80 | (i >> 7 & 0x7f), i >> 14 },
		       5);
	image_fde(&image, 0x20000, 0x20000, program, sizeof(program));
	table = image_table(&image);
	cr_expect_eq(table->rule_nr, UNWIND_RULES_MAX);
	expect_rule(table, 0x20000 + 65000, SP_PLUS(64999));
	expect_rule(table, 0x20000 + 69000, UNSUPPORTED);
	expect_rule(table, 0x40000, NOTHING);
}

/* ---- functions in no order ---- */

Test(unwind_pages, sort_functions)
{
	FDE(&image, 0x3000, 0x10, DW_CFA_def_cfa_offset, 32);
	FDE(&image, 0x1000, 0x10, DW_CFA_def_cfa_offset, 16);
	FDE(&image, 0x2000, 0x10, DW_CFA_def_cfa_offset, 24);
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(16));
	expect_rule(table, 0x2000, SP_PLUS(24));
	expect_rule(table, 0x3000, SP_PLUS(32));
	expect_rule(table, 0x2fff, NOTHING);
}

Test(unwind_pages, prefer_the_later_of_two_overlapping_functions)
{
	FDE(&image, 0x1000, 0x100, ADVANCE(32), DW_CFA_def_cfa_offset, 16);
	FDE(&image, 0x1010, 0x10, DW_CFA_def_cfa_offset, 24);
	table = image_table(&image);
	expect_rule(table, 0x100f, SP_PLUS(8));
	expect_rule(table, 0x1010, SP_PLUS(24));
	expect_rule(table, 0x1020, NOTHING);
	expect_rule(table, 0x1030, NOTHING);
}

Test(unwind_pages, keep_the_first_of_two_functions_at_one_address)
{
	FDE(&image, 0x1000, 0x10, DW_CFA_def_cfa_offset, 16);
	FDE(&image, 0x1000, 0x20, DW_CFA_def_cfa_offset, 24);
	FDE(&image, 0x800, 0x10, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(16));
	cr_expect_eq(table->fde_nr, 2);
}

Test(unwind_pages, leave_out_functions_outside_the_code)
{
	FDE(&image, 0x1000, 0x10, 0);
	FDE(&image, TEXT_SIZE, 0x10, 0);
	FDE(&image, TEXT_SIZE - 1, 2, 0);
	FDE(&image, 0x2000, 0, 0);
	table = image_table(&image);
	cr_expect_eq(table->fde_nr, 1);
	cr_expect_eq(table->outside_nr, 3);
	expect_rule(table, 0x2000, NOTHING);
}

/* ---- real objects ---- */

static struct unwind_rule rule_of_file(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct reason why = { "" };
	uint64_t vaddr;

	cr_assert_eq(unwind_table__from_file(fd, &table, &why), 0, "%s", why.text);
	close(fd);
	cr_assert_eq(unwind_table__vaddr(table, offset, &vaddr), 0);
	return unwind_table__rule(table, vaddr);
}

Test(unwind_pages, hold_the_rules_of_our_own_program)
{
	extern const char __executable_start[];
	uint64_t offset = (uint64_t)rule_of_file - (uint64_t)__executable_start;
	struct unwind_rule first = rule_of_file("/proc/self/exe", offset);
	uint64_t vaddr;

	cr_expect(!memcmp(&first, &SP_PLUS(8), sizeof(first)));
	cr_expect_eq(unwind_table__vaddr(table, UINT64_MAX, &vaddr), -ENOENT);
	cr_expect_eq(unwind_table__vaddr(table, 0, &vaddr), -ENOENT, "the header is no code");
}
