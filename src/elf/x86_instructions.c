// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/x86_instructions.h"

#include <errno.h>

#include "base/array.h"

int decoder_open(csh *ret_capstone, cs_insn **ret_insn)
{
	*ret_insn = NULL;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, ret_capstone)) {
		*ret_capstone = 0;
		return -ENOMEM;
	}
	cs_option(*ret_capstone, CS_OPT_DETAIL, CS_OPT_ON);
	*ret_insn = cs_malloc(*ret_capstone);
	if (*ret_insn)
		return 0;
	decoder_close(ret_capstone, ret_insn);
	return -ENOMEM;
}

void decoder_close(csh *capstone, cs_insn **insn)
{
	if (*insn)
		cs_free(*insn, 1);
	if (*capstone)
		cs_close(capstone);
	*insn = NULL;
}

bool insn_has_group(const cs_insn *insn, unsigned int group)
{
	for (size_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == group)
			return true;
	return false;
}

bool insn_is_jcc(const cs_insn *insn)
{
	return (insn->size == 2 && (insn->bytes[0] & 0xf0) == 0x70) ||
	       (insn->size == 6 && insn->bytes[0] == 0x0f && (insn->bytes[1] & 0xf0) == 0x80);
}

bool insn_calls_pointer(const cs_insn *insn)
{
	return (insn->id == X86_INS_CALL || insn->id == X86_INS_JMP) && insn->detail->x86.op_count == 1 &&
	       insn->detail->x86.operands[0].type != X86_OP_IMM;
}

bool insn_only_looks(const cs_insn *insn)
{
	switch (insn->id) {
	case X86_INS_ENDBR64:
	case X86_INS_NOP:
	case X86_INS_CMP:
	case X86_INS_TEST:
	case X86_INS_BT:
		return true;
	}
	return false;
}

bool insn_writes_first_operand(const cs_insn *insn)
{
	static const x86_insn known[] = {
		X86_INS_MOV,	X86_INS_MOVABS, X86_INS_MOVZX,	X86_INS_MOVSX,	X86_INS_MOVSXD,
		X86_INS_LEA,	X86_INS_ADD,	X86_INS_SUB,	X86_INS_ADC,	X86_INS_SBB,
		X86_INS_AND,	X86_INS_OR,	X86_INS_XOR,	X86_INS_NOT,	X86_INS_NEG,
		X86_INS_INC,	X86_INS_DEC,	X86_INS_SHL,	X86_INS_SHR,	X86_INS_SAR,
		X86_INS_ROL,	X86_INS_ROR,	X86_INS_BSF,	X86_INS_BSR,	X86_INS_LZCNT,
		X86_INS_TZCNT,	X86_INS_POPCNT, X86_INS_BSWAP,	X86_INS_CMOVA,	X86_INS_CMOVAE,
		X86_INS_CMOVB,	X86_INS_CMOVBE, X86_INS_CMOVE,	X86_INS_CMOVG,	X86_INS_CMOVGE,
		X86_INS_CMOVL,	X86_INS_CMOVLE, X86_INS_CMOVNE, X86_INS_CMOVNO, X86_INS_CMOVNP,
		X86_INS_CMOVNS, X86_INS_CMOVO,	X86_INS_CMOVP,	X86_INS_CMOVS,	X86_INS_SETA,
		X86_INS_SETAE,	X86_INS_SETB,	X86_INS_SETBE,	X86_INS_SETE,	X86_INS_SETG,
		X86_INS_SETGE,	X86_INS_SETL,	X86_INS_SETLE,	X86_INS_SETNE,	X86_INS_SETNO,
		X86_INS_SETNP,	X86_INS_SETNS,	X86_INS_SETO,	X86_INS_SETP,	X86_INS_SETS,
		X86_INS_MOVD,	X86_INS_MOVQ,	X86_INS_MOVAPS, X86_INS_MOVUPS, X86_INS_MOVDQA,
		X86_INS_MOVDQU, X86_INS_PXOR,	X86_INS_XORPS,
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i] == insn->id)
			return true;
	return false;
}
