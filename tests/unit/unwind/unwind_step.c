// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One step to the caller, on a stack of a few words. */
#include <criterion/criterion.h>

#include "shared/bpf_types.h"

#define STACK 0x7000u
#define WORD_NR 32

struct unwind_memory {
	bpf_u64 word[WORD_NR];
};

static int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address, bpf_u64 *ret_word)
{
	if (address < STACK || address >= STACK + sizeof(memory->word) || address % 8)
		return -1;
	*ret_word = memory->word[(address - STACK) / 8];
	return 0;
}

struct unwind_rows;
#include "shared/unwind_types.h"
static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return ((const unwind_row *)rows)[index];
}

#include "shared/unwind_step.h"

static struct unwind_memory memory;
static struct unwind_frame frame;

/* Each word is 0x100 times its number, so a value shows where it was read. */
static void begin(void)
{
	for (bpf_u64 i = 0; i < WORD_NR; i++)
		memory.word[i] = i << 8;
	frame = (struct unwind_frame){ .pc = 0x401234, .sp = STACK, .fp = STACK + 0x40 };
}

TestSuite(unwind_step, .init = begin);

#define STEP(...) unwind_step((struct unwind_rule){ __VA_ARGS__ }, &frame, &memory)

static void expect_frame(bpf_u64 pc, bpf_u64 sp, bpf_u64 fp)
{
	cr_expect_eq(frame.pc, pc, "pc %#llx", (unsigned long long)frame.pc);
	cr_expect_eq(frame.sp, sp, "sp %#llx", (unsigned long long)frame.sp);
	cr_expect_eq(frame.fp, fp, "fp %#llx", (unsigned long long)frame.fp);
}

Test(unwind_step, follows_the_stack_pointer)
{
	frame.is_exact = 1;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 32), UNWIND_GOES_ON);
	expect_frame(0x300, STACK + 32, STACK + 0x40);
	cr_expect_eq(frame.is_exact, 0);
}

Test(unwind_step, follows_a_saved_frame_pointer)
{
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_FP, .cfa_off = 16, .fp_kind = UNWIND_FP_AT_CFA,
			  .fp_off = -16),
		     UNWIND_GOES_ON);
	expect_frame(0x900, STACK + 0x50, 0x800);
}

Test(unwind_step, follows_saved_addresses)
{
	memory.word[7] = STACK + 0x60; /* at fp - 8 */
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_FP_DEREF, .cfa_off = -8, .fp_kind = UNWIND_FP_AT_FP),
		     UNWIND_GOES_ON);
	expect_frame(0xb00, STACK + 0x60, 0x800);
	begin();
	memory.word[2] = STACK + 0x68;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 16, .addend = 8,
			  .fp_kind = UNWIND_FP_AT_SP, .fp_off = 24),
		     UNWIND_GOES_ON);
	expect_frame(0xd00, STACK + 0x70, 0x300);
}

Test(unwind_step, leaves_the_plt)
{
	const struct unwind_rule plt = { .cfa_kind = UNWIND_CFA_PLT, .cfa_off = 8, .addend = 11 };

	frame.pc = 0x40100a;
	cr_expect_eq(unwind_step(plt, &frame, &memory), UNWIND_GOES_ON);
	expect_frame(0, STACK + 8, STACK + 0x40);
	begin();
	frame.pc = 0x40100b;
	cr_expect_eq(unwind_step(plt, &frame, &memory), UNWIND_GOES_ON);
	expect_frame(0x100, STACK + 16, STACK + 0x40);
}

Test(unwind_step, leaves_a_signal_handler)
{
	memory.word[20] = 0x1000; /* another stack, below */
	memory.word[21] = 0x405678;
	memory.word[15] = 0xabc;
	frame.is_fp_lost = 1;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 160, .fp_off = 120),
		     UNWIND_GOES_ON);
	expect_frame(0x405678, 0x1000, 0xabc);
	cr_expect_eq(frame.is_exact, 1);
	cr_expect_eq(frame.is_fp_lost, 0);
	cr_expect_eq(unwind_rule_address(&frame), 0x405678, "it was interrupted there");
	frame.is_exact = 0;
	cr_expect_eq(unwind_rule_address(&frame), 0x405677, "it called from before");
}

#define SIGNED (0x2aULL << 48)

Test(unwind_step, finds_a_return_address_that_a_function_saved_with_the_frame_pointer)
{
	memory.word[3] |= SIGNED;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -32,
			  .return_kind = UNWIND_RETURN_ABOVE_FP),
		     UNWIND_GOES_ON);
	expect_frame(0x300, STACK + 48, 0x200);
	begin();
	frame.is_fp_lost = 1;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_kind = UNWIND_FP_AT_FP,
			  .return_kind = UNWIND_RETURN_ABOVE_FP),
		     UNWIND_NO_FP);
}

Test(unwind_step, finds_a_return_address_that_a_function_saved_alone)
{
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_off = -32, .return_kind = UNWIND_RETURN_AT_CFA),
		     UNWIND_GOES_ON);
	expect_frame(0x200, STACK + 48, STACK + 0x40);
	cr_expect_eq(frame.is_fp_lost, 0);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 48, .fp_kind = UNWIND_FP_LOST, .fp_off = -8,
			  .return_kind = UNWIND_RETURN_AT_CFA),
		     UNWIND_GOES_ON);
	cr_expect_eq(frame.is_fp_lost, 1);
	cr_expect_eq(frame.fp, STACK + 0x40);
}

Test(unwind_step, takes_the_link_register_once)
{
	const struct unwind_rule leaf = { .cfa_kind = UNWIND_CFA_SP, .return_kind = UNWIND_RETURN_IN_LINK };

	frame.link = 0x404040 | SIGNED;
	cr_expect_eq(unwind_step(leaf, &frame, &memory), UNWIND_GOES_ON);
	expect_frame(0x404040, STACK, STACK + 0x40);
	cr_expect_eq(unwind_step(leaf, &frame, &memory), UNWIND_NO_FP, "only the innermost frame has it");
	begin();
	frame.link = 0x404040;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = -8, .return_kind = UNWIND_RETURN_IN_LINK), UNWIND_BACKWARDS);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .fp_off = -8, .return_kind = UNWIND_RETURN_AT_CFA), UNWIND_BACKWARDS);
}

Test(unwind_step, takes_the_link_register_of_interrupted_code)
{
	memory.word[16] = 0x404040 | SIGNED;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 160, .fp_off = 120, .return_kind = UNWIND_RETURN_ABOVE_FP),
		     UNWIND_GOES_ON);
	cr_expect_eq(frame.link, 0x404040);
	cr_expect_eq(frame.is_exact, 1);
}

Test(unwind_step, needs_no_stack_pointer_where_the_frame_pointer_says_it)
{
	frame.is_sp_lost = 1;
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 32), UNWIND_NO_RULE);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 32), UNWIND_NO_RULE);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_FP, .cfa_off = 16), UNWIND_GOES_ON);
	cr_expect_eq(frame.is_sp_lost, 0);
	expect_frame(0x900, STACK + 0x50, STACK + 0x40);
}

/* From a stack to another one, which lies in words 20 to 30. */
static void begin_switch(void)
{
	memory.word[1] = 0x30;	       /* how far below its end */
	memory.word[2] = STACK + 0x80; /* the state, with the bounds: */
	memory.word[17] = STACK + 8 * 20;
	memory.word[18] = STACK + 8 * 30;
	frame.fp = STACK + 8 * 28;
}

#define SWITCH .cfa_kind = UNWIND_CFA_SWITCH, .cfa_off = UNWIND_SWITCH(16, 16, 16), .addend = 8
#define LEFT .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = 24

Test(unwind_step, follows_a_switch_of_stacks_and_back)
{
	begin_switch();
	frame.sp = STACK + 8; /* the other stack may lie above or below */
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SWITCH, .cfa_off = UNWIND_SWITCH(8, 16, 16), .addend = 0),
		     UNWIND_GOES_ON);
	expect_frame(25 << 8, STACK + 8 * 26, STACK + 8 * 28);
	cr_expect_eq(frame.is_fp_lost, 0);
	cr_expect_eq(STEP(LEFT), UNWIND_GOES_ON);
	expect_frame(3 << 8, STACK + 8 * 4, STACK + 8 * 28);
	cr_expect_eq(STEP(LEFT), UNWIND_NO_RULE, "the walk is there");
}

Test(unwind_step, trusts_no_frame_pointer_to_a_stack_that_has_moved)
{
	begin_switch();
	frame.fp = STACK + 8 * 30;
	cr_expect_eq(STEP(SWITCH), UNWIND_GOES_ON);
	cr_expect_eq(frame.is_fp_lost, 1, "above");
	begin();
	begin_switch();
	frame.fp = STACK + 8 * 25;
	cr_expect_eq(STEP(SWITCH), UNWIND_GOES_ON);
	cr_expect_eq(frame.is_fp_lost, 1, "below");
	begin();
	begin_switch();
	frame.fp = STACK;
	cr_expect_eq(STEP(SWITCH, .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16), UNWIND_GOES_ON);
	expect_frame(25 << 8, STACK + 8 * 26, 24 << 8);
	cr_expect_eq(frame.is_fp_lost, 0, "it was saved there");
}

Test(unwind_step, switches_to_no_place_outside_of_the_stack)
{
	static const bpf_u64 depths[] = { 0, 8, 16, 96, 104, 0x34, -8 };

	for (size_t i = 0; i < sizeof(depths) / sizeof(*depths); i++) {
		begin();
		begin_switch();
		memory.word[1] = depths[i];
		cr_expect_eq(STEP(SWITCH), UNWIND_BACKWARDS, "%#llx", (unsigned long long)depths[i]);
	}
	begin_switch();
	memory.word[2] = 0x8000;
	cr_expect_eq(STEP(SWITCH), UNWIND_UNREADABLE);
	begin();
	cr_expect_eq(STEP(LEFT), UNWIND_NO_RULE, "no stack was left");
}

Test(unwind_step, ends_with_a_reason)
{
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_NONE), UNWIND_NO_RULE);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_ROOT), UNWIND_ROOT);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_UNSUPPORTED), UNWIND_UNSUPPORTED);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 0), UNWIND_BACKWARDS);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = -8), UNWIND_BACKWARDS);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 9 * WORD_NR), UNWIND_UNREADABLE);
	begin();
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 8, .fp_kind = UNWIND_FP_AT_CFA,
			  .fp_off = -16),
		     UNWIND_UNREADABLE);
	begin();
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = -8), UNWIND_UNREADABLE);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = 8 * WORD_NR - 8), UNWIND_UNREADABLE);
}

Test(unwind_step, fails_without_a_frame_pointer_only_when_it_is_needed)
{
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 8, .fp_kind = UNWIND_FP_LOST),
		     UNWIND_GOES_ON);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 8), UNWIND_GOES_ON);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 8, .fp_kind = UNWIND_FP_AT_FP),
		     UNWIND_GOES_ON);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_FP, .cfa_off = 16), UNWIND_NO_FP);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_FP_DEREF, .cfa_off = 16), UNWIND_NO_FP);
	cr_expect_eq(STEP(.cfa_kind = UNWIND_CFA_SP, .cfa_off = 8, .fp_kind = UNWIND_FP_AT_CFA,
			  .fp_off = -8),
		     UNWIND_GOES_ON);
	cr_expect_eq(frame.is_fp_lost, 0, "it was saved, and is known again");
}
