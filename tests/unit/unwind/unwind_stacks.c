// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Rules from code that changes the stack, as Go's runtime has it. */
#include "unwind_fixture.h"

static struct image image;
static struct unwind_table *table;

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

/* The rule at a return address; around it, that of the call frame information holds. */
static void expect_at_return(size_t offset, struct unwind_rule want)
{
	expect_rule(table, TEXT + offset - 2, SP_PLUS(8));
	expect_rule(table, TEXT + offset - 1, want);
	expect_rule(table, TEXT + offset, SP_PLUS(8));
}

static void begin(void)
{
	image_begin(&image);
	image_usual_cie(&image);
}

static void end(void)
{
	unwind_table__free(table);
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

/* The place from which the stack pointer came does not get its older value again, or is another one than the switch's. */
CODE(other_field, SWITCHES(other_field) CROSSCALL RETURNS CALLBACK
     "other_field_go:" TO_C "mov %rax, 0x40(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
CODE(other_base, SWITCHES(other_base) CROSSCALL RETURNS CALLBACK
     "other_base_go:" TO_C "mov %rbx, %rsi; mov %rax, 0x38(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
CODE(no_caller, SWITCHES(no_caller) RETURNS CALLBACK
     "no_caller_go:" TO_C "mov %rax, 0x38(%rsi); mov 0x18(%rsp), %rbp; add $0x20, %rsp; ret");
LABEL(other_field_go);
LABEL(other_base_go);
LABEL(no_caller_go);

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
}
