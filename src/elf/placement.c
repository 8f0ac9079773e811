// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/placement.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "elf/elf_object.h"
#include "elf/instructions.h"

/* Intel SDM vol. 2, 2.1.5 */
size_t x86_modrm_len(uint8_t modrm, uint8_t sib)
{
	uint8_t mod = modrm >> 6, rm = modrm & 7;
	bool has_sib = mod != 3 && rm == 4;

	if (mod == 3)
		return 1;
	if (mod == 1)
		return 2 + has_sib;
	if (mod == 2 || rm == 5 || (has_sib && (sib & 7) == 5))
		return 5 + has_sib;
	return 1 + has_sib;
}

/* Legacy prefixes and REX, in any order: more than an instruction can have. */
static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x40 ... 0x4f:
	case 0x64 ... 0x67:
	case 0xf0:
	case 0xf2:
	case 0xf3:
		return true;
	}
	return false;
}

static bool modrm_ends_it(const uint8_t *code, size_t at)
{
	return at < NOP5_BYTES &&
	       at + x86_modrm_len(code[at], at + 1 < NOP5_BYTES ? code[at + 1] : 0) == NOP5_BYTES;
}

bool is_nop5(const uint8_t *code, size_t size)
{
	size_t at = 0;

	if (size < NOP5_BYTES)
		return false;
	while (at < NOP5_BYTES - 1 && is_prefix(code[at]))
		at++;
	switch (code[at]) {
	case 0x0f: /* nopl */
		return at < NOP5_BYTES - 1 && code[at + 1] == 0x1f && modrm_ends_it(code, at + 2);
	case 0x89: /* mov of a register to itself; a mov to another register counts, too */
		return code[NOP5_BYTES - 1] >= 0xc0 && modrm_ends_it(code, at + 1);
	case 0x8d: /* lea without a displacement */
		return !code[NOP5_BYTES - 1] && modrm_ends_it(code, at + 1);
	case 0x90:
		return at == NOP5_BYTES - 1;
	case 0xe9: /* jmp to the next instruction */
		return !at && !memcmp(code + 1, "\0\0\0", 4);
	case 0xeb:
		return at == NOP5_BYTES - 2 && !code[NOP5_BYTES - 1];
	}
	return false;
}

#define CODE_MAX (64u << 10)

/* A function's code and the instruction that was decoded last. */
struct code {
	csh capstone;
	cs_insn *insn;
	const uint8_t *byte;
	size_t size;
	uint64_t address;
	size_t argument_nr;
	bool stack_may_move;
};

static bool code__decode(struct code *code, size_t at)
{
	const uint8_t *byte = code->byte + at;
	size_t left = code->size - at;
	uint64_t address = code->address + at;

	return cs_disasm_iter(code->capstone, &byte, &left, &address, code->insn);
}

/*
 * Instructions that every kernel since 6.1 emulates, by their bytes. Newer kernels emulate more
 * (long nops, some moves), and some prefixes would be possible, too. An instruction that is missing
 * here costs time, but never makes a count wrong.
 */
static bool is_emulated(const cs_insn *insn)
{
	uint8_t op = insn->bytes[0], next = insn->bytes[1];

	if (is_nop5(insn->bytes, insn->size))
		return false;
	switch (op) {
	case 0x50 ... 0x57: /* push */
		return insn->size == 1;
	case 0x41: /* push %r8 … %r15 */
		return insn->size == 2 && next >= 0x50 && next <= 0x57;
	case 0x70 ... 0x7f: /* jcc */
	case 0x90:	    /* nop */
	case 0xe8:	    /* call */
	case 0xe9:	    /* jmp */
	case 0xeb:
		return true;
	case 0x0f: /* jcc, near */
		return next >= 0x80 && next <= 0x8f;
	}
	return false;
}

/* All names of the stack pointer and of the argument registers, in the arguments' order. */
static const x86_reg stack_pointer[] = { X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL };
static const x86_reg arguments[][5] = {
	{ X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL },
	{ X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL },
	{ X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH },
	{ X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH },
	{ X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B },
	{ X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B },
};

static bool is_among(unsigned int reg, const x86_reg *names, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (names[i] == reg)
			return true;
	return false;
}

static bool is_precious(unsigned int reg, const struct code *code)
{
	for (size_t i = 0; i < code->argument_nr; i++)
		if (is_among(reg, arguments[i], ARRAY_SIZE(arguments[i])))
			return true;
	return !code->stack_may_move && is_among(reg, stack_pointer, ARRAY_SIZE(stack_pointer));
}

/* mul and imul of one operand: calloc's product, in rax and rdx. */
static bool is_product(const cs_insn *insn)
{
	return (insn->id == X86_INS_MUL || insn->id == X86_INS_IMUL) &&
	       insn->detail->x86.op_count == 1;
}

/*
 * Whether the call's arguments and stack are unchanged after this instruction. A store ends the
 * line, too: an allocator may publish a block by a plain store, and the probe of free() must come
 * before that.
 */
static bool keeps_call(const struct code *code)
{
	const cs_insn *insn = code->insn;
	const cs_x86 *x86 = &insn->detail->x86;

	if (insn_only_looks(insn))
		return true;
	if (is_product(insn))
		return !is_precious(X86_REG_RDX, code);
	if (!insn_writes_first_operand(insn) || !x86->op_count)
		return false;
	return x86->operands[0].type == X86_OP_REG &&
	       !is_precious(x86->operands[0].reg, code);
}

static bool is_branch(const cs_insn *insn)
{
	for (size_t i = 0; i < insn->detail->groups_count; i++)
		switch (insn->detail->groups[i]) {
		case X86_GRP_JUMP:
		case X86_GRP_CALL:
		case X86_GRP_BRANCH_RELATIVE:
			return true;
		}
	return false;
}

/*
 * A jump through a register or a table. A jump through a fixed place (a GOT entry) leads to the
 * entry of another function.
 */
static bool jumps_anywhere(const cs_insn *insn)
{
	const cs_x86_op *to = &insn->detail->x86.operands[0];

	return insn->id == X86_INS_JMP && insn->detail->x86.op_count == 1 &&
	       (to->type == X86_OP_REG || (to->type == X86_OP_MEM && to->mem.base != X86_REG_RIP));
}

/*
 * Whether a branch anywhere in the function lands, or may land, after the entry and not after the
 * site. Jump tables are not read, so a jump through a table may have a case that begins there.
 * After bytes that do not decode, the search tries every offset, since it is out of step with the
 * code.
 */
static bool has_branch_into(struct code *code, size_t site)
{
	const cs_x86 *x86 = &code->insn->detail->x86;
	bool in_step = true;

	for (size_t at = 0; at < code->size;) {
		if (!code__decode(code, at)) {
			in_step = false;
			at++;
			continue;
		}
		if (is_branch(code->insn) && x86->op_count == 1 &&
		    x86->operands[0].type == X86_OP_IMM &&
		    (uint64_t)x86->operands[0].imm - code->address - 1 < site)
			return true;
		if (in_step && jumps_anywhere(code->insn))
			return true;
		at += in_step ? code->insn->size : 1;
	}
	return false;
}

static void placement__set(struct placement *placement, size_t offset, enum placement_why why,
			   const cs_insn *insn)
{
	*placement = (struct placement){ .offset = offset, .why = why };
	if (insn)
		snprintf(placement->instruction, sizeof(placement->instruction), "%.15s%s%.46s",
			 insn->mnemonic, insn->op_str[0] ? " " : "", insn->op_str);
}

/*
 * Follows the line from the entry to the first emulated instruction. Its offset is then in *at, and
 * the instruction in code->insn. PLACEMENT_EMULATED, or the reason why the line has no such instruction.
 */
static enum placement_why find_emulated_insn(struct code *code, size_t *at)
{
	for (*at = 0; *at < code->size; *at += code->insn->size) {
		if (!code__decode(code, *at))
			return PLACEMENT_NOT_DECODED;
		if (is_emulated(code->insn))
			return PLACEMENT_EMULATED;
		if (!keeps_call(code))
			break;
	}
	return code->size ? PLACEMENT_NONE_IN_REACH : PLACEMENT_NOT_DECODED;
}

static bool is_at_nop5(struct code *code, size_t at)
{
	return is_nop5(code->byte + at, code->size - at) && code__decode(code, at) &&
	       code->insn->id == X86_INS_NOP;
}

/*
 * Places the probe at the entry. If nops of five bytes are there, the probe goes after them, unless
 * a branch leads back to that place.
 */
static void stay(struct code *code, enum placement_why why, struct placement *ret)
{
	size_t at = 0;

	while (is_at_nop5(code, at))
		at += NOP5_BYTES;
	if (at && (code->size == CODE_MAX || has_branch_into(code, at) || !code__decode(code, at)))
		at = 0;
	placement__set(ret, at, at ? PLACEMENT_BEHIND_NOP : why,
		       code->size && code__decode(code, at) ? code->insn : NULL);
}

static void find_placement(struct code *code, struct placement *ret)
{
	struct placement found;
	enum placement_why why;
	size_t at;

	why = find_emulated_insn(code, &at);
	if (why == PLACEMENT_EMULATED)
		placement__set(&found, at, why, code->insn);
	if (why == PLACEMENT_EMULATED && at) {
		if (code->size == CODE_MAX) /* cut off: the targets of branches in the rest are not known */
			why = PLACEMENT_NONE_IN_REACH;
		else if (has_branch_into(code, at))
			why = PLACEMENT_BRANCH_INTO;
	}
	if (why == PLACEMENT_EMULATED)
		*ret = found;
	else
		stay(code, why, ret);
}

/*
 * On other machines the probe stays at the entry. On AArch64 the return address is still in the
 * link register there, unsigned; the return probe takes it from that register.
 */
int placement_find(const struct placement_function *function, struct placement *ret)
{
	struct code code = {
		.byte = function->code,
		.size = function->size < CODE_MAX ? function->size : CODE_MAX,
		.address = function->address,
		.argument_nr = function->argument_nr ?: ARRAY_SIZE(arguments),
		.stack_may_move = function->stack_may_move,
	};

	placement__set(ret, 0, PLACEMENT_NOT_DECODED, NULL);
	if (function->elf_machine != EM_X86_64)
		return 0;
	if (decoder_open(&code.capstone, &code.insn))
		return -ENOMEM;
	find_placement(&code, ret);
	decoder_close(&code.capstone, &code.insn);
	return 0;
}
