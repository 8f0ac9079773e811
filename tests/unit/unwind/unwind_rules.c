// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rules made from call frame information. */
#include <errno.h>

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

TestSuite(unwind_rules, .init = begin, .fini = end);

#define ADVANCE(n) (DW_CFA_advance_loc | (n))
#define SAVED(reg, slot) (DW_CFA_offset | (reg)), (slot)

Test(unwind_rules, describe_a_function_with_a_frame_pointer)
{
	const struct unwind_rule pushed = { .cfa_kind = UNWIND_CFA_SP, .cfa_off = 16,
					    .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 };
	const struct unwind_rule framed = { .cfa_kind = UNWIND_CFA_FP, .cfa_off = 16,
					    .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 };

	FDE(&image, 0x1000, 0x20, ADVANCE(1), DW_CFA_def_cfa_offset, 16, SAVED(6, 2), ADVANCE(3),
	    DW_CFA_def_cfa_register, 6, ADVANCE(27), DW_CFA_def_cfa, 7, 8, DW_CFA_restore | 6);
	table = image_table(&image);
	expect_rule(table, 0xfff, NOTHING);
	expect_rule(table, 0x1000, SP_PLUS(8));
	expect_rule(table, 0x1001, pushed);
	expect_rule(table, 0x1003, pushed);
	expect_rule(table, 0x1004, framed);
	expect_rule(table, 0x101e, framed);
	expect_rule(table, 0x101f, SP_PLUS(8));
	expect_rule(table, 0x1020, NOTHING);
	cr_expect_eq(table->fde_nr, 1);
	cr_expect_eq(table->unsupported_nr, 0);
}

Test(unwind_rules, are_restored_from_remembered_states)
{
	FDE(&image, 0x1000, 0x20, ADVANCE(1), DW_CFA_def_cfa_offset, 32, ADVANCE(1),
	    DW_CFA_remember_state, DW_CFA_def_cfa_offset, 8, ADVANCE(1), DW_CFA_restore_state);
	table = image_table(&image);
	expect_rule(table, 0x1001, SP_PLUS(32));
	expect_rule(table, 0x1002, SP_PLUS(8));
	expect_rule(table, 0x1003, SP_PLUS(32));
}

Test(unwind_rules, may_be_at_address_deltas_of_all_sizes)
{
	FDE(&image, 0x1000, 0x70000, DW_CFA_advance_loc1, 0xff, DW_CFA_def_cfa_offset, 16,
	    DW_CFA_advance_loc2, 0x01, 0x10, DW_CFA_def_cfa_offset, 24, DW_CFA_advance_loc4, 0, 0, 1,
	    0, DW_CFA_def_cfa_offset, 32);
	table = image_table(&image);
	expect_rule(table, 0x10fe, SP_PLUS(8));
	expect_rule(table, 0x10ff, SP_PLUS(16));
	expect_rule(table, 0x20ff, SP_PLUS(16));
	expect_rule(table, 0x2100, SP_PLUS(24));
	expect_rule(table, 0x120ff, SP_PLUS(24));
	expect_rule(table, 0x12100, SP_PLUS(32));
	expect_rule(table, 0x70fff, SP_PLUS(32));
	expect_rule(table, 0x71000, NOTHING);
}

Test(unwind_rules, describe_the_root)
{
	FDE(&image, 0x1000, 0x20, DW_CFA_undefined, 16);
	table = image_table(&image);
	expect_rule(table, 0x1010, ROOT);
}

#define PLT(threshold) \
	DW_CFA_def_cfa_expression, 11, DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, \
		DW_OP_lit0 + (threshold), DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus

Test(unwind_rules, describe_the_plt)
{
	const struct unwind_rule eleven = { .cfa_kind = UNWIND_CFA_PLT, .cfa_off = 8, .addend = 11 };
	const struct unwind_rule ten = { .cfa_kind = UNWIND_CFA_PLT, .cfa_off = 8, .addend = 10 };

	FDE(&image, 0x1000, 0x20, DW_CFA_def_cfa_offset, 16, ADVANCE(6), PLT(11), ADVANCE(16), PLT(10),
	    ADVANCE(1), PLT(16));
	table = image_table(&image);
	expect_rule(table, 0x1005, SP_PLUS(16));
	expect_rule(table, 0x1006, eleven);
	expect_rule(table, 0x1016, ten);
	expect_rule(table, 0x1017, UNSUPPORTED);
}

/* gcc's -mstackrealign: the argument pointer is saved at rbp - 8, and rbp at the address in rbp. */
Test(unwind_rules, describe_a_realigned_stack)
{
	const struct unwind_rule drap = { .cfa_kind = UNWIND_CFA_FP_DEREF, .cfa_off = -8,
					  .fp_kind = UNWIND_FP_AT_FP };
	const struct unwind_rule plus = { .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 112,
					  .fp_kind = UNWIND_FP_AT_SP, .fp_off = 32, .addend = 8 };

	FDE(&image, 0x1000, 0x20, DW_CFA_expression, 6, 2, DW_OP_breg6, 0, DW_CFA_def_cfa_expression,
	    3, DW_OP_breg6, 0x78, DW_OP_deref, ADVANCE(4), DW_CFA_def_cfa_expression, 6, DW_OP_breg7,
	    0xf0, 0, DW_OP_deref, DW_OP_plus_uconst, 8, DW_CFA_expression, 6, 2, DW_OP_breg7, 32);
	table = image_table(&image);
	expect_rule(table, 0x1000, drap);
	expect_rule(table, 0x1004, plus);
}

#define SIGNAL_CFA DW_CFA_def_cfa_expression, 4, DW_OP_breg7, 0xa0, 1, DW_OP_deref
#define SIGNAL_FP DW_CFA_expression, 6, 3, DW_OP_breg7, 0xf8, 0
#define SIGNAL_PC(low) DW_CFA_expression, 16, 3, DW_OP_breg7, (low), 1

Test(unwind_rules, describe_a_signal_frame)
{
	const struct unwind_rule saved = { .cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 160,
					   .fp_off = 120 };

	FDE(&image, 0xfff, 0x10, SIGNAL_CFA, SIGNAL_FP, SIGNAL_PC(0xa8));
	CIE(&image, "zRS", DW_CFA_def_cfa, 7, 8, SAVED(16, 1));
	FDE(&image, 0x1fff, 0x10, SIGNAL_CFA, SIGNAL_FP, SIGNAL_PC(0xa8));
	FDE(&image, 0x2fff, 0x10, SIGNAL_CFA, SIGNAL_FP, SIGNAL_PC(0xb0));
	FDE(&image, 0x3fff, 0x10, SIGNAL_CFA, SIGNAL_PC(0xa8));
	FDE(&image, 0x4fff, 0x10, DW_CFA_def_cfa_offset, 16);
	table = image_table(&image);
	expect_rule(table, 0xfff, UNSUPPORTED); /* it does not say that it is one */
	expect_rule(table, 0x1fff, saved);
	expect_rule(table, 0x2fff, UNSUPPORTED); /* pc is not beside sp */
	expect_rule(table, 0x3fff, UNSUPPORTED); /* fp is not saved */
	expect_rule(table, 0x4fff, UNSUPPORTED);
}

Test(unwind_rules, that_cannot_be_expressed_are_unsupported)
{
	static const uint8_t large[] = { DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 4 };

	FDE(&image, 0x1000, 0x10, DW_CFA_def_cfa_register, 3);
	FDE(&image, 0x2000, 0x10, DW_CFA_register, 16, 0);
	FDE(&image, 0x3000, 0x10, SAVED(16, 2));
	FDE(&image, 0x4000, 0x10, DW_CFA_val_offset, 7, 1);
	FDE(&image, 0x5000, 0x10, DW_CFA_same_value, 16);
	image_fde(&image, 0x6000, 0x10, large, sizeof(large));
	FDE(&image, 0x7000, 0x10, DW_CFA_def_cfa_expression, 2, DW_OP_breg3, 8);
	table = image_table(&image);
	for (uint64_t vaddr = 0x1000; vaddr <= 0x7000; vaddr += 0x1000)
		expect_rule(table, vaddr, UNSUPPORTED);
	cr_expect_eq(table->unsupported_nr, 7);
}

Test(unwind_rules, describe_large_frames)
{
	static const uint8_t largest[] = { DW_CFA_def_cfa_offset, 0xff, 0xff, 0xff, 3 };

	image_fde(&image, 0x1000, 0x10, largest, sizeof(largest));
	table = image_table(&image);
	expect_rule(table, 0x1000, SP_PLUS(UNWIND_OFFSET_MAX));
}

Test(unwind_rules, mark_a_lost_frame_pointer)
{
	const struct unwind_rule lost = { .cfa_kind = UNWIND_CFA_SP, .cfa_off = 8,
					  .fp_kind = UNWIND_FP_LOST };

	FDE(&image, 0x1000, 0x10, DW_CFA_undefined, 6);
	FDE(&image, 0x2000, 0x10, DW_CFA_register, 6, 0);
	FDE(&image, 0x3000, 0x10, DW_CFA_expression, 6, 2, DW_OP_breg3, 8);
	FDE(&image, 0x4000, 0x10, DW_CFA_val_expression, 6, 2, DW_OP_breg6, 8);
	table = image_table(&image);
	for (uint64_t vaddr = 0x1000; vaddr <= 0x4000; vaddr += 0x1000)
		expect_rule(table, vaddr, lost);
}

Test(unwind_rules, ignore_other_registers)
{
	uint32_t rows;

	FDE(&image, 0x1000, 0x20, 0);
	table = image_table(&image);
	rows = table->row_nr;
	unwind_table__free(table);
	FDE(&image, 0x1020, 0x20, ADVANCE(1), SAVED(3, 2), ADVANCE(1), SAVED(12, 3), ADVANCE(1),
	    DW_CFA_GNU_args_size, 16, ADVANCE(1), DW_CFA_restore | 3, ADVANCE(1),
	    DW_CFA_restore_extended, 12, ADVANCE(1), DW_CFA_same_value, 6);
	table = image_table(&image);
	expect_rule(table, 0x103f, SP_PLUS(8));
	cr_expect_eq(table->row_nr, rows);
}
