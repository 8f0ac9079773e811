/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PLACEMENT_H
#define ALLOCSNAP_ELF_PLACEMENT_H

/*
 * Where in a function its probe should sit.
 *
 * A uprobe replaces an instruction by int3. If the kernel can emulate that instruction (x86:
 * push, one-byte nop, jmp, jcc, call; arch/x86/kernel/uprobes.c, branch_setup_xol_ops and
 * push_setup_xol_ops) a hit costs 0.7 µs. If the kernel must single-step it, a hit costs 9–10 µs in
 * a virtual machine and about 3× an emulated one on bare metal. glibc's free() starts with
 * `test %rdi,%rdi`; three bytes later is a `je`, which every call executes. On arm64 the kernel emulates
 * branches, ret, adr and adrp (arch/arm64/kernel/probes/decode-insn.c).
 *
 * So the probe goes to the first emulated instruction on the straight line from the entry, if
 *  - nothing before it writes memory, an argument's register, the stack pointer or the register with
 *    the return address (so the probe sees the call as it was made, and a return probe finds the
 *    return address where the machine has it at the entry),
 *  - nothing before it leaves the line (branch, call, return, trap), and
 *  - no branch of the function leads to it, or after the entry and before it: the probe would count
 *    a call twice.
 * Otherwise the probe stays at the entry, where it is always right. A nop of five bytes must not be
 * probed (is_nop5()): the probe goes after such nops at the entry, if no branch leads back to there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum placement_why {
	PLACEMENT_EMULATED = 0,	  /* the kernel emulates the instruction there */
	PLACEMENT_NONE_IN_REACH,  /* at the entry: no safe emulated instruction */
	PLACEMENT_BRANCH_INTO,	  /* at the entry: the function branches back to or before it */
	PLACEMENT_NOT_DECODED,	  /* at the entry: bytes that are no code, or another machine */
	PLACEMENT_BEHIND_NOP,	  /* after nops of five bytes at the entry, and not emulated */
};

struct placement {
	uint32_t offset; /* bytes from the function's first instruction */
	enum placement_why why;
	char instruction[64]; /* the instruction there: "je 0x98f00" */
};

/* A function: code[0 … size) is its symbol's code; at most 64 KiB of it are searched. */
struct placement_function {
	const void *code;
	size_t size;
	uint64_t address;	  /* used only in the instruction's text */
	uint16_t elf_machine;	  /* e_machine */
	unsigned int argument_nr; /* arguments that the probe reads; 0: any that the machine has in registers */
	bool stack_may_move;	  /* the probe needs no return address */
};

/* 0 or -ENOMEM. */
int placement_find(const struct placement_function *function, struct placement *ret);

/*
 * Nops of five bytes (x86-64). From 6.18 on the kernel turns a uprobe on such a nop into a call to
 * a page that it maps into the process (arch/x86/kernel/uprobes.c, can_optimize()). In 6.18 a
 * forked child inherits the call, but not the page: the child dies of SIGSEGV at its first hit.
 */

#define NOP5_BYTES 5

/*
 * Whether the instruction at code, with size readable bytes, may be such a nop. This is not only 0f
 * 1f 44 00 00: newer kernels accept every instruction of this length that does nothing
 * (insn_is_nop()).
 */
bool is_nop5(const uint8_t *code, size_t size);

#endif
