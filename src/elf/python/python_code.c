// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/elf_object_private.h"

static int read_segment(struct python_code *code, struct reason *why)
{
	const struct elf_object *elf = code->elf;
	GElf_Phdr segment = {};
	bool found = false;

	for (size_t i = 0; i < elf->segment_nr && !found && gelf_getphdr(elf->elf, i, &segment); i++)
		found = segment.p_type == PT_LOAD && segment.p_flags & PF_X && segment.p_filesz;
	if (!found)
		return reason_set(why, -ENOEXEC, "no code");
	if (segment.p_filesz > PYTHON_CODE_MAX)
		return reason_set(why, -E2BIG, "%llu bytes of code", (unsigned long long)segment.p_filesz);
	code->byte = malloc(segment.p_filesz);
	if (!code->byte)
		return -ENOMEM;
	code->start = segment.p_vaddr;
	code->size = elf_object__read_some(elf, segment.p_offset, code->byte, segment.p_filesz);
	return code->start + code->size < code->start ? reason_set(why, -ENOEXEC, "code at impossible addresses") : 0;
}

int python_code__open(struct python_code *code, struct elf_object *elf, struct reason *why)
{
	int err = 0;

	*code = (struct python_code){ .elf = elf, .is_fixed = elf->header.e_type == ET_EXEC };
	if (elf_object__machine(elf) != EM_X86_64)
		err = reason_set(why, -ENOTSUP, "not for x86-64");
	err = err ?: read_segment(code, why);
	err = err ?: decoder_open(&code->capstone, &code->insn);
	if (err)
		python_code__close(code);
	return err;
}

void python_code__close(struct python_code *code)
{
	decoder_close(&code->capstone, &code->insn);
	free(code->byte);
	*code = (struct python_code){};
}

bool python_code__has(const struct python_code *code, uint64_t vaddr)
{
	return vaddr - code->start < code->size;
}

bool python_code__decode(struct python_code *code, uint64_t vaddr)
{
	const uint8_t *byte;
	size_t left;

	if (!python_code__has(code, vaddr))
		return false;
	byte = code->byte + (vaddr - code->start);
	left = code->size - (vaddr - code->start);
	return cs_disasm_iter(code->capstone, &byte, &left, &vaddr, code->insn);
}

static bool has_target(const cs_insn *insn, unsigned int id, uint64_t *ret_target)
{
	const cs_x86 *x86 = &insn->detail->x86;

	if (insn->id != id || x86->op_count != 1 || x86->operands[0].type != X86_OP_IMM)
		return false;
	*ret_target = x86->operands[0].imm;
	return true;
}

bool python_code__is_jump(const struct python_code *code, uint64_t *ret_target)
{
	return has_target(code->insn, X86_INS_JMP, ret_target);
}

bool python_code__is_call(const struct python_code *code, uint64_t *ret_target)
{
	return has_target(code->insn, X86_INS_CALL, ret_target);
}

bool python_code__leaves(const struct python_code *code)
{
	static const unsigned int leaving[] = {
		X86_GRP_JUMP, X86_GRP_CALL, X86_GRP_RET, X86_GRP_INT, X86_GRP_IRET, X86_GRP_BRANCH_RELATIVE,
	};

	for (size_t i = 0; i < ARRAY_SIZE(leaving); i++)
		if (insn_has_group(code->insn, leaving[i]))
			return true;
	return code->insn->id == X86_INS_UD2 || code->insn->id == X86_INS_HLT;
}

bool python_code__extent(const struct python_code *code, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_end)
{
	return !elf_object__extent(code->elf, vaddr, ret_start, ret_end) && python_code__has(code, *ret_start) &&
	       *ret_end > *ret_start && *ret_end - code->start <= code->size;
}

static int make_target_room(struct python_branches *branches, const struct python_code *code)
{
	if (branches->target)
		return 0;
	branches->target = calloc(code->size / 8 + 1, 1);
	if (!branches->target)
		return -ENOMEM;
	branches->start = code->start;
	branches->size = code->size;
	return 0;
}

static void note_target(struct python_branches *branches, uint64_t vaddr)
{
	uint64_t at = vaddr - branches->start;

	if (at < branches->size)
		branches->target[at / 8] |= 1 << at % 8;
}

int python_branches__note_short(struct python_branches *branches, const struct python_code *code)
{
	const cs_insn *insn = code->insn;
	int err = make_target_room(branches, code);

	if (!err && insn->size == 2 && ((insn->bytes[0] & 0xf0) == 0x70 || insn->bytes[0] == 0xeb))
		note_target(branches, insn->address + 2 + (int8_t)insn->bytes[1]);
	return err;
}

int python_branches__note_long(struct python_branches *branches, const struct python_code *code)
{
	int err = make_target_room(branches, code);

	for (size_t at = 1; !err && at + 5 <= code->size; at++) {
		bool is_jmp = code->byte[at] == 0xe9;
		bool is_jcc = code->byte[at - 1] == 0x0f && (code->byte[at] & 0xf0) == 0x80;
		int32_t distance;

		if (!is_jmp && !is_jcc)
			continue;
		memcpy(&distance, code->byte + at + 1, sizeof(distance));
		note_target(branches, code->start + at + 5 + distance);
	}
	return err;
}

void python_branches__release(struct python_branches *branches)
{
	free(branches->target);
	*branches = (struct python_branches){};
}

bool python_branches__lead_to(const struct python_branches *branches, uint64_t first, uint64_t last)
{
	for (uint64_t vaddr = first; vaddr <= last; vaddr++) {
		uint64_t at = vaddr - branches->start;

		if (at < branches->size && branches->target[at / 8] >> at % 8 & 1)
			return true;
	}
	return false;
}
