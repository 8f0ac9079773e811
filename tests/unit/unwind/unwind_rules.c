// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind_fixture.h"

/* Rules made from call frame information. */

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

/* Tables: pages, the order of functions, and tables of real objects. */

TestSuite(unwind_pages, .init = begin, .fini = end);

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

/* Rules from code that changes the stack, as Go's runtime has it. */

/* Code that is not executed here. Labels of a block begin with its name. */
#define CODE(name, text) \
	__asm__(".pushsection .rodata\n.balign 32, 0xcc\n" #name ":\n" text "\n" #name "_end:\n.balign 32, 0xcc\n.popsection\n"); \
	extern const uint8_t name[], name##_end[]

#define LABEL(name) extern const uint8_t name[]

#define TEXT 0x1000u

/* Maps it at TEXT, in a file with this section, in a function whose CFA .debug_frame says to be sp + 8. */
static void map_code(const uint8_t *code, const uint8_t *end, const char *section)
{
	memset(image.bytes + TEXT, 0xcc, 0x1000);
	memcpy(image.bytes + TEXT, code, end - code);
	image_add_sections(&image, section, TEXT, 0x1000);
	table = image_table(&image);
}

#define MAP(name) map_code(name, name##_end, ".gopclntab")

/* The rule at a return address; around it, the rule of the call frame information holds. */
static void expect_at_return(size_t offset, struct unwind_rule want)
{
	expect_rule(table, TEXT + offset - 2, SP_PLUS(8));
	expect_rule(table, TEXT + offset - 1, want);
	expect_rule(table, TEXT + offset, SP_PLUS(8));
}

TestSuite(unwind_stacks, .init = begin, .fini = end);

#define SWITCH(state, depth, above) \
	.cfa_kind = UNWIND_CFA_SWITCH, .cfa_off = UNWIND_SWITCH(state, 8, above), .addend = (depth)

/* Go 1.19: asmcgocall has no frame. */
CODE(frameless, "mov 0x38(%rsi), %rsp; sub $0x40, %rsp; and $-16, %rsp; mov %rdi, 0x30(%rsp); call *%rax\n"
		"frameless_switched: mov 0x30(%rsp), %rdi; mov 8(%rdi), %rsi; sub 0x28(%rsp), %rsi\n"
		"mov %rdi, %fs:-8; mov %rsi, %rsp; mov %eax, 0x18(%rsp); ret\n"
		"sub $0x40, %rsp; and $-16, %rsp; mov %rdx, 0x28(%rsp); call *%rax\n"
		"frameless_same: mov 0x28(%rsp), %rsi; mov %rsi, %rsp; mov %eax, 0x18(%rsp); ret");
LABEL(frameless_switched);
LABEL(frameless_same);

Test(unwind_stacks, are_found_where_code_restores_them)
{
	const struct unwind_rule switched = { SWITCH(0x30, 0x28, 8) };
	const struct unwind_rule same = { .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 0x28, .addend = 8 };

	MAP(frameless);
	expect_at_return(frameless_switched - frameless, switched);
	expect_at_return(frameless_same - frameless, same);
}

Test(unwind_stacks, are_not_looked_for_without_go)
{
	map_code(frameless, frameless_end, ".text");
	expect_at_return(frameless_switched - frameless, SP_PLUS(8));
}

/* C code with arrays of any size, and with aligned locals. */
CODE(arrays, ".rept 150; mov %rax, %rsp; call arrays; mov %rbp, %rsp; .endr\n.skip 0x800 - (. - arrays), 0xcc\n"
	     "call *%rax\n"
	     "arrays_same: mov 0x28(%rsp), %rsi; mov %rsi, %rsp; ret");
LABEL(arrays_same);

Test(unwind_stacks, are_found_beside_c_code_that_loads_its_stack_pointer)
{
	const struct unwind_rule same = { .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = 0x28, .addend = 8 };

	FDE(&image, TEXT, 0x800, DW_CFA_nop);
	MAP(arrays);
	expect_rule(table, TEXT, SP_PLUS(8));
	expect_rule(table, TEXT + (arrays_same - arrays) - 1, same);
}

/* Which code changes the stack is not known then, and .debug_frame may be wrong. */
CODE(many, ".rept 300; mov %rax, %rsp; .endr; ret");

Test(unwind_stacks, are_not_known_where_code_has_too_many_loads)
{
	MAP(many);
	expect_rule(table, TEXT, NOTHING);
	expect_rule(table, TEXT + 0xfff, NOTHING);
}

Test(unwind_stacks, are_as_eh_frame_says_where_code_has_too_many_loads)
{
	FDE(&image, TEXT + 0x800, 0x800, DW_CFA_nop);
	MAP(many);
	expect_rule(table, TEXT, NOTHING);
	expect_rule(table, TEXT + 0x800, SP_PLUS(8));
}

/* C code of a Go program may load its stack pointer, too; compilers describe it. */
Test(unwind_stacks, are_as_eh_frame_says)
{
	FDE(&image, TEXT, 0x1000, DW_CFA_nop);
	MAP(frameless);
	expect_at_return(frameless_switched - frameless, SP_PLUS(8));
}

Test(unwind_stacks, are_found_in_a_pie_that_gcc_has_linked)
{
	map_code(frameless, frameless_end, ".go.buildinfo");
	expect_at_return(frameless_switched - frameless, (struct unwind_rule){ SWITCH(0x30, 0x28, 8) });
}

/* Go 1.22 and later, as a PIE: with a frame pointer, and thread-local memory by a register. */
CODE(framed, "call framed\n"
	     "framed_switched: mov $-8, %rcx; mov 8(%rsp), %rdi; mov 8(%rdi), %rsi; sub (%rsp), %rsi\n"
	     "mov %rdi, %fs:(%rcx); mov %rsi, %rsp; mov %eax, 0x20(%rsp); pop %rbp; ret");
LABEL(framed_switched);

Test(unwind_stacks, have_the_frame_pointer_that_is_saved_there)
{
	const struct unwind_rule want = { SWITCH(8, 0, 16), .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 };

	MAP(framed);
	expect_at_return(framed_switched - framed, want);
}

/* As systemstack, mcall, and code that may have changed what it loads. */
CODE(unknown, "mov 0x38(%rdx), %rsp; mov %rdi, %rdx; call *%rdi\n"
	      "unknown_curg: mov %fs:-8, %rax; mov 0x30(%rax), %rbx; mov 0xc0(%rbx), %rax; mov %rax, %fs:-8\n"
	      "mov 0x38(%rax), %rsp; movq $0, 0x38(%rax); ret\n"
	      "mov 0x38(%r14), %rsp; push %rax; call *%r12\n"
	      "unknown_mcall: pop %rax; ret\n"
	      "call *%rax\n"
	      "unknown_stored: mov %rax, 0x28(%rbx); mov 0x28(%rsp), %rsp; ret\n"
	      "call *%rax\n"
	      "unknown_half: mov 0x28(%rsp), %rsi; mov %eax, %esi; mov %rsi, %rsp; ret");
LABEL(unknown_curg);
LABEL(unknown_mcall);
LABEL(unknown_stored);
LABEL(unknown_half);

Test(unwind_stacks, have_no_rule_where_code_does_not_say_one)
{
	MAP(unknown);
	expect_at_return(unknown_curg - unknown, NOTHING);
	expect_at_return(unknown_mcall - unknown, NOTHING);
	expect_at_return(unknown_stored - unknown, NOTHING);
	expect_at_return(unknown_half - unknown, NOTHING);
}

CODE(goexit, "nop; call goexit; nop");

Test(unwind_stacks, begin_where_each_goroutine_returns_to)
{
	MAP(goexit);
	expect_rule(table, TEXT, ROOT);
	expect_rule(table, TEXT + 1, SP_PLUS(8));
}

Test(unwind_stacks, do_not_begin_in_c_code_that_looks_so)
{
	FDE(&image, TEXT, 0x1000, DW_CFA_nop);
	MAP(goexit);
	expect_rule(table, TEXT, SP_PLUS(8));
}

/* C code calls Go code: crosscall2 has 72 bytes above its call's, and the switch that follows begins 64 bytes below. */
#define CROSSCALL "call 1f\n"
#define RETURNS "add $0x18, %rsp; mov (%rsp), %rbx; mov 0x28(%rsp), %rbp; add $0x30, %rsp; ret\n.balign 16, 0xcc\n"
#define CALLBACK "1: mov %rdi, %rsp; call *%rax\n"
#define TO_C "mov 0x38(%rdi), %rbx; mov %rbx, 0x40(%rsi); mov (%rbx), %rsi; mov 0x38(%rsi), %rsp; mov (%rsp), %rax\n"
#define SWITCHES(name) \
	"mov 0x38(%rsi), %rsp; sub $0x40, %rsp; and $-16, %rsp; call *%rax\n" #name "_switched:" \
	"mov 0x30(%rsp), %rdi; mov 8(%rdi), %rsi; sub 0x28(%rsp), %rsi; mov %rsi, %rsp; ret\n"

CODE(callback, SWITCHES(callback) CROSSCALL "callback_cross:" RETURNS CALLBACK
     "callback_go:" TO_C "mov %rax, 0x38(%rsi); mov 0x10(%rsp), %rbx; cmp $0, %rbx; jne 2f; call *%rcx\n"
     "2: mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
LABEL(callback_go);
LABEL(callback_cross);

Test(unwind_stacks, go_on_in_c_behind_a_callback)
{
	const struct unwind_rule left = { .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = 0x40 + 8 + 0x28,
					  .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 };
	const struct unwind_rule cross = { .cfa_kind = UNWIND_CFA_SP, .cfa_off = 0x50,
					   .fp_kind = UNWIND_FP_AT_CFA, .fp_off = -16 };

	MAP(callback);
	expect_at_return(callback_go - callback, left);
	expect_at_return(callback_cross - callback, cross);
}

/*
 * The walk refuses three switches: one does not put the older stack pointer back where it came from, one puts it somewhere else,
 * and one begins at a place that the walk does not know.
 */
CODE(other_field, SWITCHES(other_field) CROSSCALL RETURNS CALLBACK
     "other_field_go:" TO_C "mov %rax, 0x40(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
CODE(other_base, SWITCHES(other_base) CROSSCALL RETURNS CALLBACK
     "other_base_go:" TO_C "mov %rbx, %rsi; mov %rax, 0x38(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
CODE(no_caller, SWITCHES(no_caller) RETURNS CALLBACK
     "no_caller_go:" TO_C "mov %rax, 0x38(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
CODE(other_begin,
     "mov %rdx, %rsp; sub $0x40, %rsp; and $-16, %rsp; call *%rax\n"
     "mov 0x30(%rsp), %rdi; mov 8(%rdi), %rsi; sub 0x28(%rsp), %rsi; mov %rsi, %rsp; ret\n"
     SWITCHES(other_begin) CROSSCALL RETURNS CALLBACK
     "other_begin_go:" TO_C "mov %rax, 0x38(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
LABEL(other_field_go);
LABEL(other_base_go);
LABEL(no_caller_go);
LABEL(other_begin_go);

Test(unwind_stacks, end_at_a_callback_that_code_does_not_explain)
{
	MAP(other_field);
	expect_at_return(other_field_go - other_field, NOTHING);
	unwind_table__free(table);
	MAP(other_base);
	expect_at_return(other_base_go - other_base, NOTHING);
	unwind_table__free(table);
	MAP(no_caller);
	expect_at_return(no_caller_go - no_caller, NOTHING);
	unwind_table__free(table);
	MAP(other_begin);
	expect_at_return(other_begin_go - other_begin, NOTHING);
}
