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
