// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Wrong call frame information: rows that can be known are, the others are unsupported. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
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

TestSuite(unwind_hostile, .init = begin, .fini = end);

#define ADVANCE(n) (DW_CFA_advance_loc | (n))
#define PROGRAM(...) { (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }) }

/* The row before the error is right; the row with the error and all later ones are unsupported. */
static const struct {
	const uint8_t *bytes;
	size_t nr;
} wrong[] = {
	PROGRAM(ADVANCE(1), 0x3f),
	PROGRAM(ADVANCE(1), DW_CFA_restore_state),
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_offset),
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_offset, 0x80, 0x80),
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_expression, 200, DW_OP_breg7, 8),
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_expression, 1, DW_OP_breg7, DW_CFA_def_cfa_offset, 8),
	PROGRAM(ADVANCE(1), DW_CFA_expression, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		1, DW_OP_breg7, 8),
	PROGRAM(ADVANCE(1), DW_CFA_set_loc, 0xff, 0xff, 0xff, 0xff), /* back */
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_advance_loc4, 1),
	PROGRAM(ADVANCE(1), DW_CFA_def_cfa_offset_sf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0),
};

Test(unwind_hostile, invalid_instructions_are_unsupported)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		begin();
		image_fde(&image, 0x1000, 0x100, wrong[i].bytes, wrong[i].nr);
		table = image_table(&image);
		expect_rule(table, 0x1000, SP_PLUS(8));
		expect_rule(table, 0x1001, UNSUPPORTED);
		expect_rule(table, 0x10ff, UNSUPPORTED);
		expect_rule(table, 0x1100, NOTHING);
		unwind_table__free(table);
		table = NULL;
	}
}

Test(unwind_hostile, remembered_states_are_limited_in_depth)
{
	uint8_t program[64];

	memset(program, DW_CFA_remember_state, sizeof(program));
	image_fde(&image, 0x1000, 0x10, program, 32);
	image_fde(&image, 0x2000, 0x10, program, 33);
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(8));
	expect_rule(table, 0x2000, UNSUPPORTED);
}

Test(unwind_hostile, cie_with_too_many_instructions_is_unsupported)
{
	uint8_t program[300] = { DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1 };

	image_cie(&image, "zR", program, 256);
	FDE(&image, 0x1000, 0x10, 0);
	image_cie(&image, "zR", program, 257);
	FDE(&image, 0x2000, 0x10, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(8));
	expect_rule(table, 0x2000, UNSUPPORTED);
}

Test(unwind_hostile, cie_that_is_invalid_does_not_affect_the_next_one)
{
	CIE(&image, "zR", 0x3f);
	FDE(&image, 0x1000, 0x10, 0);
	image_usual_cie(&image);
	FDE(&image, 0x2000, 0x10, 0);
	CIE(&image, "zR", DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1, ADVANCE(1));
	FDE(&image, 0x3000, 0x10, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, UNSUPPORTED);
	expect_rule(table, 0x2000, SP_PLUS(8));
	expect_rule(table, 0x3000, UNSUPPORTED);
}

Test(unwind_hostile, cies_of_an_unknown_form_are_counted)
{
	static const char *const letters[] = { "zRx", "x", "eh" };

	FDE(&image, 0x1000, 0x10, 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(letters); i++) {
		CIE(&image, letters[i], DW_CFA_def_cfa, 7, 8);
		FDE(&image, 0x2000 + 0x100 * i, 0x10, 0);
	}
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(8));
	expect_rule(table, 0x2000, NOTHING);
	cr_expect_eq(table->not_understood_nr, 2 * ARRAY_SIZE(letters));
}

/* The words after the length: in an FDE the first word is the distance back to its CIE. */
Test(unwind_hostile, fdes_without_a_cie_are_refused)
{
	size_t fde = image.size;

	FDE(&image, 0x1000, 0x10, 0);
	for (uint32_t back = 1; back < 200; back++) {
		if (back == fde + 4 - image.cie)
			continue;
		memcpy(image.bytes + fde + 4, &back, sizeof(back));
		image_refused(&image, -ENODATA);
	}
}

Test(unwind_hostile, fde_that_is_its_own_cie_is_ignored)
{
	uint32_t back = 4;
	size_t fde = image.size;

	FDE(&image, 0x1000, 0x10, 0);
	memcpy(image.bytes + fde + 4, &back, sizeof(back));
	FDE(&image, 0x2000, 0x10, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, NOTHING);
	expect_rule(table, 0x2000, SP_PLUS(8));
	cr_expect_eq(table->not_understood_nr, 1);
}

Test(unwind_hostile, entries_longer_than_the_section_are_ignored)
{
	static const uint32_t lengths[] = { 0x7fffffff, 0xfffffffe, 0xffffffff, IMAGE_MAX };

	FDE(&image, 0x1000, 0x10, 0);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		image_raw(&image, &lengths[i], sizeof(lengths[i]));
		table = image_table(&image);
		expect_rule(table, 0x1000, SP_PLUS(8));
		unwind_table__free(table);
		table = NULL;
		image.size -= sizeof(lengths[i]);
	}
}

/* ---- files that are no objects ---- */

static Elf64_Ehdr *header(void)
{
	return (Elf64_Ehdr *)image.bytes;
}

static Elf64_Phdr *segments(void)
{
	return (Elf64_Phdr *)(header() + 1);
}

Test(unwind_hostile, objects_of_other_kinds_are_refused)
{
	FDE(&image, 0x1000, 0x10, 0);
	header()->e_machine = EM_PPC64;
	image_refused(&image, -ENOTSUP);
	header()->e_machine = EM_X86_64;
	header()->e_type = ET_REL;
	image_refused(&image, -ENOEXEC);
	header()->e_type = ET_DYN;
	header()->e_ident[EI_CLASS] = ELFCLASS32;
	image_refused(&image, -ENOTSUP);
	header()->e_ident[0] = 0;
	image_refused(&image, -ENOEXEC);
}

Test(unwind_hostile, segments_of_absurd_sizes_are_refused)
{
	FDE(&image, 0x1000, 0x10, 0);
	segments()[0].p_memsz = 1ULL << 40;
	image_refused(&image, -E2BIG);
	segments()[0].p_memsz = UINT64_MAX;
	image_refused(&image, -E2BIG);
	segments()[0].p_vaddr = 1;
	image_refused(&image, -ENOEXEC);
	segments()[0].p_flags = PF_R;
	image_refused(&image, -ENODATA);
}

Test(unwind_hostile, headers_with_invalid_addresses_are_refused)
{
	FDE(&image, 0x1000, 0x10, 0);
	for (int bit = 0; bit < 64; bit++) {
		segments()[1].p_vaddr ^= 1ULL << bit;
		image_refused(&image, -ENODATA);
		segments()[1].p_vaddr ^= 1ULL << bit;
	}
}

static void refuse_fd(int fd, int err)
{
	struct reason why = { "" };

	cr_expect_eq(unwind_table__from_file(fd, &table, &why), err, "%s", why.text);
	cr_expect_neq(*why.text, 0);
	cr_expect_null(table);
	close(fd);
}

Test(unwind_hostile, descriptors_that_are_no_program_are_refused)
{
	int ends[2];

	cr_assert(!pipe(ends));
	close(ends[1]);
	refuse_fd(ends[0], -ENOEXEC);
	refuse_fd(open("/", O_RDONLY), -ENOEXEC);
	refuse_fd(open("/dev/null", O_RDONLY), -ENOEXEC);
	refuse_fd(open("/etc/passwd", O_RDONLY), -ENOEXEC);
	refuse_fd(-1, -ENOEXEC);
}

/* ---- tables from elsewhere ---- */

#define REFUSES(change, back) \
	do { \
		change; \
		cr_expect(!unwind_table__is_sound(table), #change); \
		back; \
		cr_assert(unwind_table__is_sound(table)); \
	} while (0)

Test(unwind_hostile, tables_that_are_invalid_are_refused)
{
	FDE(&image, 0x11000, 0x10, ADVANCE(1), DW_CFA_def_cfa_offset, 16);
	table = image_table(&image);
	REFUSES(table->page[0]++, table->page[0]--);
	REFUSES(table->page[1]++, table->page[1]--);
	REFUSES(table->page[2] = table->page[1], table->page[2] = table->page[1] + 4);
	REFUSES(table->page[2] = UINT32_MAX, table->page[2] = table->page[1] + 4);
	REFUSES(table->page_nr--, table->page_nr++);
	REFUSES(table->row_nr--, table->row_nr++);
	REFUSES(table->row[0] |= 0xffff, table->row[0] &= ~0xffffu);
	REFUSES(table->row[0] += 1u << 16, table->row[0] -= 1u << 16);
	REFUSES(table->row[3] -= 2u << 16, table->row[3] += 2u << 16);
	REFUSES(table->rule[1].cfa_kind = 15, table->rule[1].cfa_kind = UNWIND_CFA_SP);
	REFUSES(table->rule[1].fp_kind = 15, table->rule[1].fp_kind = UNWIND_FP_SAME);
	REFUSES(table->segment_nr += 100, table->segment_nr -= 100);
	REFUSES(table->rule_nr = 1, table->rule_nr = 3);
}

/* Each byte of a whole image, changed in some ways: refused, or a table that can be searched. */
Test(unwind_hostile, image_with_any_changed_byte_is_refused_or_gives_a_valid_table)
{
	static const uint8_t change[] = { 0x01, 0x80, 0xff, 0x3f };

	FDE(&image, 0x1000, 0x10, ADVANCE(1), DW_CFA_def_cfa_offset, 16, DW_CFA_offset | 6, 2);
	FDE(&image, 0x1010, 0x10, DW_CFA_def_cfa_expression, 3, DW_OP_breg6, 0x78, DW_OP_deref);
	for (size_t i = 0; i < image.size * ARRAY_SIZE(change); i++) {
		uint8_t *byte = &image.bytes[i / ARRAY_SIZE(change)];

		*byte ^= change[i % ARRAY_SIZE(change)];
		if (!unwind_table__from_memory(image.bytes, image.size + 16, &table, NULL)) {
			cr_expect(unwind_table__is_sound(table), "byte %zu", i / ARRAY_SIZE(change));
			unwind_table__free(table);
		}
		table = NULL;
		*byte ^= change[i % ARRAY_SIZE(change)];
	}
}
