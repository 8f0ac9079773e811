// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_code.h"

#include <string.h>

#include "base/array.h"
#include "elf/x86_instructions.h"

static const x86_reg wide[] = {
	X86_REG_RAX, X86_REG_RDX, X86_REG_RCX, X86_REG_RBX, X86_REG_RSI, X86_REG_RDI, X86_REG_RBP, X86_REG_RSP,
	X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11, X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15,
};
static const x86_reg half[] = {
	X86_REG_EAX, X86_REG_EDX, X86_REG_ECX,	X86_REG_EBX,  X86_REG_ESI,  X86_REG_EDI,  X86_REG_EBP,	X86_REG_ESP,
	X86_REG_R8D, X86_REG_R9D, X86_REG_R10D, X86_REG_R11D, X86_REG_R12D, X86_REG_R13D, X86_REG_R14D, X86_REG_R15D,
};

enum { RSP = 7 };

static uint8_t number_among(const x86_reg *names, x86_reg reg)
{
	for (uint8_t i = 0; i < ARRAY_SIZE(wide); i++)
		if (names[i] == reg)
			return i;
	return NO_REGISTER;
}

/* Thread-local memory is no stack. */
static enum code_effect_kind kind_of_insn(const cs_insn *insn, const cs_x86_op *op)
{
	bool has_number = op[1].type == X86_OP_IMM;

	switch (insn->id) {
	case X86_INS_MOV:
		if (op[0].type == X86_OP_MEM)
			return op[0].mem.segment == X86_REG_FS ? EFFECT_NONE : EFFECT_STORE;
		return EFFECT_SET;
	case X86_INS_POP:
		return EFFECT_SET;
	case X86_INS_ADD:
		return has_number ? EFFECT_ADD : EFFECT_CLEAR;
	case X86_INS_SUB:
		return has_number ? EFFECT_ADD : EFFECT_SUBTRACT;
	case X86_INS_LEA:
		return EFFECT_CLEAR;
	case X86_INS_AND:
		return has_number && op[1].imm == -16 ? EFFECT_ROUND : EFFECT_UNKNOWN;
	case X86_INS_CMP:
	case X86_INS_NOP:
		return EFFECT_NONE;
	case X86_INS_RET:
		return insn->detail->x86.op_count ? EFFECT_JUMP : EFFECT_RETURN;
	}
	if (insn_has_group(insn, X86_GRP_CALL))
		return EFFECT_CALL;
	if (insn_has_group(insn, X86_GRP_JUMP) && insn->id != X86_INS_JMP && op->type == X86_OP_IMM)
		return EFFECT_BRANCH;
	return insn_has_group(insn, X86_GRP_JUMP) || insn_has_group(insn, X86_GRP_RET) ? EFFECT_JUMP : EFFECT_UNKNOWN;
}

/* A write to half a register clears its upper half. */
static void read_destination(const cs_insn *insn, const cs_x86_op *op, struct code_effect *ret)
{
	x86_reg reg = op->type == X86_OP_REG ? op->reg : X86_REG_INVALID;
	bool is_half = number_among(half, reg) != NO_REGISTER;

	ret->to = ret->left = number_among(is_half ? half : wide, reg);
	if (ret->kind < EFFECT_CLEAR || ret->kind > EFFECT_ROUND)
		return;
	if (ret->to == NO_REGISTER || (ret->kind == EFFECT_ROUND && reg != X86_REG_RSP) ||
	    (insn->id == X86_INS_LEA && reg == X86_REG_RSP))
		ret->kind = EFFECT_UNKNOWN;
	else if (is_half || (insn->id == X86_INS_POP && reg == X86_REG_RSP))
		ret->kind = EFFECT_CLEAR;
}

static void read_memory_operand(const x86_op_mem *mem, struct code_effect *ret)
{
	if (mem->index == X86_REG_INVALID && mem->segment == X86_REG_INVALID)
		ret->base = number_among(wide, mem->base);
	ret->offset = mem->disp;
}

static void read_operands(const cs_insn *insn, const cs_x86_op *op, struct code_effect *ret)
{
	if (op[0].type == X86_OP_MEM)
		read_memory_operand(&op[0].mem, ret);
	if (insn->id == X86_INS_POP)
		ret->base = RSP;
	if (insn->detail->x86.op_count != 2)
		return;
	if (op[1].type == X86_OP_MEM)
		read_memory_operand(&op[1].mem, ret);
	else if (op[1].type == X86_OP_REG)
		ret->from = number_among(wide, op[1].reg);
	else if (ret->kind == EFFECT_ADD)
		ret->offset = insn->id == X86_INS_SUB ? -op[1].imm : op[1].imm;
}

static bool read_x86(const struct code *code, size_t at, struct code_effect *ret)
{
	const cs_x86_op *op = code->insn->detail->x86.operands;
	const uint8_t *byte = code->byte + at;
	uint64_t vaddr = code->vaddr + at;
	size_t left = code->size - at;

	if (!left || !cs_disasm_iter(code->capstone, &byte, &left, &vaddr, code->insn))
		return false;
	*ret = (struct code_effect){
		.kind = kind_of_insn(code->insn, op), .second = NO_REGISTER, .from = NO_REGISTER, .base = NO_REGISTER,
		.end = byte - code->byte,
	};
	if (code->insn->id == X86_INS_POP || ret->kind == EFFECT_RETURN)
		ret->popped = 8;
	if (ret->kind == EFFECT_BRANCH)
		ret->target = op->imm - code->vaddr;
	read_operands(code->insn, op, ret);
	read_destination(code->insn, op, ret);
	return true;
}

/* mov %reg,%rsp and mov …,%rsp */
static bool is_stack_load(const uint8_t *byte)
{
	if (byte[1] == 0x89)
		return (byte[0] & 0xfb) == 0x48 && (byte[2] & 0xc7) == 0xc4;
	return byte[1] == 0x8b && (byte[0] & 0xfe) == 0x48 && (byte[2] & 0x38) == 0x20;
}

/* goexit: nop, call …, nop, between functions. */
static enum code_mark mark_of_x86(const uint8_t *byte)
{
	if (is_stack_load(byte))
		return MARK_LOAD;
	return byte[0] == 0x90 && byte[1] == 0xe8 && byte[6] == 0x90 && byte[7] == 0xcc ? MARK_GOEXIT : MARK_NONE;
}

/* call …, call *%reg */
static enum code_effect_kind x86_call_before(const struct code *code, size_t at)
{
	const uint8_t *byte = code->byte + at;
	bool is_call = (at >= 5 && byte[-5] == 0xe8) || (at >= 2 && byte[-2] == 0xff && (byte[-1] & 0xf8) == 0xd0);

	return is_call ? EFFECT_CALL : EFFECT_NONE;
}

static size_t x86_call_target(const struct code *code, size_t at, size_t *ret_end)
{
	int32_t distance;

	*ret_end = at + 5;
	if (code->byte[at] != 0xe8 || *ret_end > code->size)
		return SIZE_MAX;
	memcpy(&distance, code->byte + at + 1, sizeof(distance));
	return *ret_end + (int64_t)distance;
}

static int open_x86(struct code *code)
{
	return decoder_open(&code->capstone, &code->insn);
}

static void close_x86(struct code *code)
{
	decoder_close(&code->capstone, &code->insn);
}

const struct code_reader code_reader_x86 = {
	.step = 1,
	.open = open_x86,
	.close = close_x86,
	.read = read_x86,
	.mark = mark_of_x86,
	.call_before = x86_call_before,
	.call_target = x86_call_target,
};
