// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/machine.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/operand_text.h"
#include "elf/placement.h"
#include "elf/x86_instructions.h"
#include "elf/x86_registers.h"

#if CS_API_MAJOR < 5
#define X86_INS_UD1 X86_INS_UD2B
#endif

/* x86-64. */

/* ---- nops of five bytes ---- */

/* Intel SDM vol. 2, 2.1.5 */
static size_t x86_modrm_len(uint8_t modrm, uint8_t sib)
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

/* ---- what instructions change ---- */

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

/* mul and imul of one operand: calloc's product, in rax and rdx. */
static bool is_product(const cs_insn *insn)
{
	return (insn->id == X86_INS_MUL || insn->id == X86_INS_IMUL) &&
	       insn->detail->x86.op_count == 1;
}

static uint16_t changes_of_register(unsigned int reg)
{
	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (is_among(reg, arguments[i], ARRAY_SIZE(arguments[i])))
			return 1 << i;
	return is_among(reg, stack_pointer, ARRAY_SIZE(stack_pointer)) ? CHANGES_STACK : 0;
}

static uint16_t changes_of(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;

	if (insn_only_looks(insn))
		return 0;
	if (is_product(insn))
		return changes_of_register(X86_REG_RDX);
	if (!insn_writes_first_operand(insn) || !x86->op_count || x86->operands[0].type != X86_OP_REG)
		return CHANGES_MORE;
	return changes_of_register(x86->operands[0].reg);
}

/* ---- where they lead ---- */

/*
 * On AMD's processors a near branch with a 16-bit prefix is a 16-bit branch. Intel's ignore the
 * prefix and read two bytes more. So the next instruction is not known.
 */
static bool is_ambiguous_insn(const cs_insn *insn)
{
	const uint8_t rex_w = 8;

	return insn->detail->x86.prefix[2] == 0x66 && !(insn->detail->x86.rex & rex_w) &&
	       (insn_has_group(insn, X86_GRP_JUMP) || insn_has_group(insn, X86_GRP_CALL) ||
		insn_has_group(insn, X86_GRP_BRANCH_RELATIVE));
}

/* struct earlier, of which `what` is capstone's number. The value: it loads 4 bytes from a table, by an index in a register. */
#define EARLIER_LOOKED_AT 4

static struct earlier earlier_of(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;
	struct earlier ret = { .what = insn->id };

	if (x86->op_count && x86->operands[0].type == X86_OP_REG)
		ret.to = x86->operands[0].reg;
	if (insn->id == X86_INS_MOVSXD && x86->op_count == 2 && x86->operands[1].type == X86_OP_MEM)
		ret.value = x86->operands[1].mem.index != X86_REG_INVALID && x86->operands[1].mem.scale == 4;
	return ret;
}

/* movslq (table,index,4), a; add b, a; jmp *a: offsets from the table to places in the function. */
static bool is_offset_table(const struct earlier *earlier, x86_reg reg)
{
	int add = 0;

	while (add < EARLIER_LOOKED_AT && (earlier[add].what != X86_INS_ADD || earlier[add].to != reg))
		add++;
	for (int i = add + 1; i < EARLIER_LOOKED_AT; i++)
		if (earlier[i].value)
			return true;
	return false;
}

static enum flow flow_of_jump(const struct insn_reader *reader, const cs_insn *insn, uint64_t *ret_target)
{
	const cs_x86_op *to = &insn->detail->x86.operands[0];

	if (to->type == X86_OP_IMM)
		*ret_target = to->imm;
	else if (to->type == X86_OP_MEM && to->mem.base == X86_REG_RIP)
		*ret_target = insn->address + insn->size + to->mem.disp;
	else if (to->type == X86_OP_MEM)
		*ret_target = to->mem.disp;
	if (insn->id == X86_INS_CALL)
		return to->type == X86_OP_IMM ? FLOW_CALL :
		       to->type == X86_OP_MEM && to->mem.base == X86_REG_RIP ? FLOW_CALL_SLOT : FLOW_CALL_ANYWHERE;
	if (to->type == X86_OP_IMM)
		return FLOW_JUMP;
	if (to->type == X86_OP_REG)
		return is_offset_table(reader->earlier, to->reg) ? FLOW_JUMP_OFFSETS : FLOW_JUMP_ANYWHERE;
	if (to->mem.base == X86_REG_RIP)
		return FLOW_JUMP_SLOT;
	return to->mem.base == X86_REG_INVALID && to->mem.index != X86_REG_INVALID && to->mem.scale == 8 ?
		       FLOW_JUMP_ADDRESSES : FLOW_JUMP_ANYWHERE;
}

static void set_flow(const struct insn_reader *reader, const cs_insn *insn, struct insn *ret)
{
	const cs_x86 *x86 = &insn->detail->x86;

	switch (insn->id) {
	case X86_INS_RET:
		ret->flow = FLOW_RETURN;
		return;
	case X86_INS_UD0: /* capstone does not know the length of these two with operands */
	case X86_INS_UD1:
		ret->may_be_data = true;
		/* fall through */
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_INT3:
		ret->flow = FLOW_STOP;
		return;
	case X86_INS_JMP:
	case X86_INS_CALL:
		ret->flow = flow_of_jump(reader, insn, &ret->target);
		return;
	case X86_INS_LJMP:
	case X86_INS_LCALL:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT:
		ret->flow = FLOW_UNKNOWN;
		ret->what = "a far jump or return";
		return;
	}
	if (!insn_has_group(insn, X86_GRP_JUMP) && !insn_has_group(insn, X86_GRP_BRANCH_RELATIVE))
		return;
	ret->flow = FLOW_UNKNOWN;
	ret->what = "an unknown branch";
	if (x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM) {
		ret->flow = FLOW_BRANCH;
		ret->target = x86->operands[0].imm;
	}
}

/* ---- the machine ---- */

struct x86_decoder {
	csh capstone;
	cs_insn *insn;
};

static int x86_open(struct insn_reader *reader)
{
	struct x86_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder || decoder_open(&decoder->capstone, &decoder->insn)) {
		free(decoder);
		return -ENOMEM;
	}
	reader->decoder = decoder;
	return 0;
}

static void x86_close(struct insn_reader *reader)
{
	struct x86_decoder *decoder = reader->decoder;

	decoder_close(&decoder->capstone, &decoder->insn);
	free(decoder);
}

static bool x86_read(struct insn_reader *reader, const uint8_t *byte, size_t left, uint64_t vaddr, struct insn *ret)
{
	struct x86_decoder *decoder = reader->decoder;
	cs_insn *insn = decoder->insn;

	if (!left || !cs_disasm_iter(decoder->capstone, &byte, &left, &vaddr, insn))
		return false;
	*ret = (struct insn){
		.vaddr = insn->address,
		.bytes = insn->size,
		.changes = changes_of(insn),
		.is_emulated = is_emulated(insn),
		.is_of_stub = insn->id == X86_INS_ENDBR64,
		.is_long_nop = insn->id == X86_INS_NOP && is_nop5(insn->bytes, insn->size),
		.is_ambiguous = is_ambiguous_insn(insn),
	};
	set_flow(reader, insn, ret);
	insn_reader__remember(reader, earlier_of(insn));
	return true;
}

static void x86_text(const struct insn_reader *reader, const struct insn *insn, char text[INSN_TEXT_MAX])
{
	const struct x86_decoder *decoder = reader->decoder;

	(void)insn;
	snprintf(text, INSN_TEXT_MAX, "%.15s%s%.46s", decoder->insn->mnemonic, decoder->insn->op_str[0] ? " " : "",
		 decoder->insn->op_str);
}

static bool x86_is_nop(const uint8_t *code, size_t size)
{
	return size && (code[0] == 0x90 || is_nop5(code, size));
}

#define CALL_BYTES_MAX 7

/* ff /2: a call through a register or memory, with len bytes in total. */
static bool is_indirect_call(const uint8_t *at, size_t len)
{
	return at[0] == 0xff && (at[1] >> 3 & 7) == 2 &&
	       1 + x86_modrm_len(at[1], len > 2 ? at[2] : 0) == len;
}

static bool x86_follows_call(const uint8_t *code, size_t before, size_t after)
{
	static const uint8_t sigreturn[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

	if (before >= 5 && code[-5] == 0xe8)
		return true;
	for (size_t len = 2; len <= CALL_BYTES_MAX && len <= before; len++)
		if (is_indirect_call(code - len, len))
			return true;
	return after >= sizeof(sigreturn) && !memcmp(code, sigreturn, sizeof(sigreturn));
}

#define PLACE(field) offsetof(struct x86_registers, field)

const struct machine machine_x86 = {
	.elf_machine = EM_X86_64,
	.step = 1,
	.argument_nr = ARRAY_SIZE(arguments),
	.relocation = {
		[RELOCATION_JUMP_SLOT] = R_X86_64_JUMP_SLOT, [RELOCATION_GLOB_DAT] = R_X86_64_GLOB_DAT,
		[RELOCATION_ABSOLUTE] = R_X86_64_64, [RELOCATION_RELATIVE] = R_X86_64_RELATIVE,
		[RELOCATION_IRELATIVE] = R_X86_64_IRELATIVE,
	},
	.register_bytes = sizeof(struct x86_registers),
	.argument_place = { PLACE(rdi), PLACE(rsi), PLACE(rdx), PLACE(rcx), PLACE(r8), PLACE(r9) },
	.parse_operand = x86_parse_operand,
	.open = x86_open,
	.close = x86_close,
	.read = x86_read,
	.text = x86_text,
	.is_long_nop = is_nop5,
	.is_nop = x86_is_nop,
	.follows_call = x86_follows_call,
};
