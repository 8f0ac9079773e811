// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <string.h>

#include "unwind_fixture.h"

/* Rules made from an arm64 file's call frame information, and its code. */

static struct image image;
static struct unwind_table *table;

static void begin(void)
{
	image_begin_arm64(&image);
}

static void end(void)
{
	unwind_table__free(table);
}

TestSuite(unwind_arm64, .init = begin, .fini = end);

#define ADVANCE(n) (DW_CFA_advance_loc | (n))
#define SAVED(reg, slot) (DW_CFA_offset | (reg)), (slot)
#define LEAF ((struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .return_kind = UNWIND_RETURN_IN_LINK })

Test(unwind_arm64, has_the_return_address_in_the_link_register_until_a_function_saves_it)
{
	const struct unwind_rule pair = { .cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -48,
					  .return_kind = UNWIND_RETURN_ABOVE_FP };
	struct unwind_rule framed = pair;

	framed.cfa_kind = UNWIND_CFA_FP;
	FDE(&image, 0x1000, 0x20, ADVANCE(4), DW_CFA_def_cfa_offset, 48, SAVED(29, 6), SAVED(30, 5), ADVANCE(4),
	    DW_CFA_def_cfa_register, 29, ADVANCE(16), DW_CFA_restore | 30, DW_CFA_restore | 29, DW_CFA_def_cfa, 31, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, LEAF);
	expect_rule(table, 0x1004, pair);
	expect_rule(table, 0x1008, framed);
	expect_rule(table, 0x1018, LEAF);
	cr_expect_eq(table->unsupported_nr, 0);
}

Test(unwind_arm64, knows_a_return_address_that_is_saved_alone)
{
	const struct unwind_rule alone = { .cfa_kind = UNWIND_CFA_SP, .cfa_off = 32, .fp_off = -32,
					   .return_kind = UNWIND_RETURN_AT_CFA };
	struct unwind_rule apart = alone;

	apart.fp_kind = UNWIND_FP_LOST;
	FDE(&image, 0x1000, 0x20, ADVANCE(4), DW_CFA_def_cfa_offset, 32, SAVED(30, 4), ADVANCE(4), SAVED(29, 2));
	table = image_table(&image);
	expect_rule(table, 0x1004, alone);
	expect_rule(table, 0x1008, apart);
}

Test(unwind_arm64, may_sign_the_return_address)
{
	FDE(&image, 0x1000, 0x20, ADVANCE(4), DW_CFA_AARCH64_negate_ra_state, DW_CFA_def_cfa_offset, 16);
	table = image_table(&image);
	expect_rule(table, 0x1004, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 16,
							 .return_kind = UNWIND_RETURN_IN_LINK });
}

Test(unwind_arm64, refuses_a_return_address_in_another_register)
{
	FDE(&image, 0x1000, 0x20, ADVANCE(4), DW_CFA_register, 30, 9);
	table = image_table(&image);
	expect_rule(table, 0x1004, UNSUPPORTED);
}

Test(unwind_arm64, leaves_a_signal_handler_by_the_code_that_it_returns_to)
{
	static const uint32_t sigreturn[] = { 0xd503201f, 0xd2801168, 0xd4000001 };

	FDE(&image, 0x1000, 0x20, DW_CFA_nop);
	memcpy(image.bytes + 0x2000, sigreturn, sizeof(sigreturn));
	memcpy(image.bytes + 0x1008, sigreturn, sizeof(sigreturn)); /* .eh_frame says what that is */
	image.size = 0x4000;
	table = image_table(&image);
	expect_rule(table, 0x2002, NOTHING);
	expect_rule(table, 0x2003, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 560, .fp_off = 544,
							 .return_kind = UNWIND_RETURN_ABOVE_FP });
	expect_rule(table, 0x2004, NOTHING);
	expect_rule(table, 0x100b, LEAF);
}

/* ---- Go's code that changes stacks, as go1.19 has compiled it ---- */

/* asmcgocall from where it loads g0's stack pointer: its calls on a goroutine's stack, and on the thread's. */
static const uint32_t asmcgocall[] = {
	0xf9401f80, 0x9100001f, 0xf940379d, 0xaa0903e0, 0x910003ed, 0xd10041ad, 0x910001bf, 0xf90003e4, 0xf9400484, 0xcb020084,
	0xf90007e4, 0xd63f0020, 0xaa0003e9, 0xf94003fc, 0x9400060b, 0xf9400785, 0xf94007e6, 0xcb0600a5, 0xaa0903e0, 0x910000bf,
	0xb9002be0, 0xa97ffbfd, 0x910043ff, 0xd65f03c0, 0x910003ed, 0xd10041ad, 0x910001bf, 0xd2800004, 0xf90003e4, 0xf90007e2,
	0xd63f0020, 0xf94007e2, 0x9100005f, 0xf90017e0, 0xa97ffbfd, 0x910043ff, 0xd65f03c0,
};
#define AT_SWITCH (12 * 4) /* return addresses */
#define AT_SAME (31 * 4)

/* cgocallback from its call of Go code on, and crosscall2 from its call of cgocallback on. */
static const uint32_t cgocallback[] = {
	0xd63f0000, 0xf94003e5, 0xf9002385, 0x910003e4, 0x9100c084, 0xf9001f84, 0xf9401b88, 0xf940011c, 0x940005c5, 0xf9401f80,
	0x9100001f, 0xf9400be4, 0xf9001f84, 0xf9400fe6, 0xb5000086, 0xd0000000, 0x910d0000, 0xd63f0000, 0xa97ffbfd, 0x9100c3ff,
	0xd65f03c0, 0xd503201f, 0xd503201f, 0xd503201f,
};
static const uint32_t crosscall2[] = {
	0x97ffffe8, 0xa94253f3, 0xa9435bf5, 0xa94463f7, 0xa9456bf9, 0xa94673fb, 0x6d4727e8, 0x6d482fea, 0x6d4937ec, 0x6d4a3fee,
	0xa94b7bfd, 0x910303ff, 0xd65f03c0,
};
#define CALLBACK 0x1200u
#define CROSS (CALLBACK + sizeof(cgocallback))

static void map_go(void)
{
	memcpy(image.bytes + 0x1000, asmcgocall, sizeof(asmcgocall));
	memcpy(image.bytes + CALLBACK, cgocallback, sizeof(cgocallback));
	memcpy(image.bytes + CROSS, crosscall2, sizeof(crosscall2));
}

static void change(uint32_t at, uint32_t insn)
{
	memcpy(image.bytes + at, &insn, sizeof(insn));
}

static void compile_go(const char *section)
{
	image.size = 0x4000;
	image_add_sections(&image, section, 0x1000, 0x1000); /* its .debug_frame is x86-64's */
	table = image_table(&image);
}

/* The frame's record is at its bottom, below the stack pointer that the code restores. */
static struct unwind_rule go_rule(struct unwind_rule rule, int record)
{
	rule.fp_kind = UNWIND_FP_AT_CFA;
	rule.fp_off = record;
	rule.return_kind = UNWIND_RETURN_ABOVE_FP;
	return rule;
}

static const struct unwind_rule go_switch = { .cfa_kind = UNWIND_CFA_SWITCH, .cfa_off = UNWIND_SWITCH(0, 8, 16), .addend = 8 };

Test(unwind_arm64, follows_go_to_the_stack_that_it_has_left)
{
	map_go();
	compile_go(".gopclntab");
	expect_rule(table, 0x1000 + AT_SWITCH - 1, go_rule(go_switch, -24));
	expect_rule(table, 0x1000 + AT_SAME - 1,
		    go_rule((struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 8, .addend = 16 }, -24));
	expect_rule(table, 0x1000 + AT_SWITCH, UNSUPPORTED);
}

Test(unwind_arm64, goes_on_in_c_behind_a_callback_of_go)
{
	map_go();
	compile_go(".gopclntab");
	expect_rule(table, CALLBACK + 3, go_rule((struct unwind_rule){ .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = 64 }, -56));
	expect_rule(table, CROSS + 3, go_rule((struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = 192 }, -16));
}

Test(unwind_arm64, has_no_rule_where_go_does_not_say_the_stack)
{
	static const struct {
		uint32_t at, insn, asked;
	} rows[] = {
		{ 0x1000 + 16 * 4, 0xf94007e5, 0x1000 + AT_SWITCH - 1 },  /* the depth goes into another register */
		{ 0x1000 + 21 * 4, 0xf85f83fe, 0x1000 + AT_SWITCH - 1 },  /* x29 stays as it is */
		{ 0x1000 + 19 * 4, 0xd503201f, 0x1000 + AT_SWITCH - 1 },  /* sp is not loaded */
		{ 0x1000 + 13 * 4, 0xf90003fc, 0x1000 + AT_SWITCH - 1 },  /* the goroutine is stored, not loaded */
		{ CALLBACK + 12 * 4, 0xf9002384, CALLBACK + 3 },	  /* another field gets its older value again */
		{ CALLBACK + 14 * 4, 0x14000004, CALLBACK + 3 },	  /* a jump that is always taken: not followed */
		{ 0x1000, 0xf9402380, CALLBACK + 3 },			  /* the switch begins at another field */
		{ 0x1000 + 4 * 4, 0x910003ee, CALLBACK + 3 },		  /* the switch goes on at a place that is not known */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		map_go();
		change(rows[i].at, rows[i].insn);
		compile_go(".gopclntab");
		cr_expect_lt(unwind_table__rule(table, rows[i].asked).cfa_kind, UNWIND_CFA_SP, "row %zu", i);
		unwind_table__free(table);
		table = NULL;
	}
}

Test(unwind_arm64, looks_for_no_stacks_without_go)
{
	map_go();
	compile_go(".text");
	expect_rule(table, 0x1000 + AT_SWITCH - 1, UNSUPPORTED);
}

Test(unwind_arm64, begins_where_each_goroutine_returns_to)
{
	change(0x1100, 0xaa0003e0);
	change(0x1104, 0x94000633);
	compile_go(".gopclntab");
	expect_rule(table, 0x1103, ROOT);
}

/* Go's call frame information says of the stack pointer what is so anyway, and of another register what is not known. */
Test(unwind_arm64, knows_a_stack_pointer_that_is_the_cfa)
{
	FDE(&image, 0x1000, 0x20, DW_CFA_val_offset, 31, 0, ADVANCE(4), DW_CFA_val_offset, 31, 1, ADVANCE(4), DW_CFA_val_offset, 31, 0,
	    DW_CFA_val_offset, 29, 0);
	table = image_table(&image);
	expect_rule(table, 0x1000, LEAF);
	expect_rule(table, 0x1004, UNSUPPORTED);
	expect_rule(table, 0x1008, (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .fp_kind = UNWIND_FP_LOST,
							 .return_kind = UNWIND_RETURN_IN_LINK });
}
