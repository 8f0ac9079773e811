// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Places where an object begins: in a new block, or in one that a free list has kept. CPython tells tracemalloc there, if
 * it is tracing (_Py_NewReference(), copied to where objects are made):
 *
 *	mov  _Py_tracemalloc_config.tracing, %eax
 *	test %eax, %eax
 *	jne  cold		◄── the place, whether it is taken or not
 * cold: mov %r12, %rdi		◄── so the object is what r12 holds at the jump
 *	call _PyTraceMalloc_NewReference
 *
 * The function that is exported as _Py_NewReference has the flag and the call, too: they are found in it. Until 3.12.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/user.h>

#include "base/array.h"
#include "elf/python/python_branches.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"

#define FUNCTION_BYTES_MAX (1u << 20)
#define READ_TO_JUMP_MAX 16 /* instructions */
#define JUMP_TO_CALL_MAX 40

#define RDI (offsetof(struct user_regs_struct, rdi) / 8)

struct creations {
	struct python_search *search;
	uint64_t flag;	   /* tracing */
	uint64_t function; /* what is called if it is set, with the object; 0: not known yet */
	uint64_t *read; /* instructions that read the flag */
	size_t read_nr, read_alloc;
	uint64_t *call; /* calls of the function that were understood */
	size_t call_nr, call_alloc;
	struct python_branches branches;
};

/* ---- from the flag to the jump ---- */

/* The operand with the flag of an instruction that only reads it, or NULL. */
static const cs_x86_op *flag_operand(const struct python_code *code, uint64_t flag)
{
	const cs_insn *insn = code->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	uint64_t at;

	for (unsigned int i = 0; i < x86->op_count; i++)
		if (python_is_variable(code, &x86->operands[i], 4, &at) && at == flag &&
		    (insn->id == X86_INS_CMP || insn->id == X86_INS_TEST || (insn->id == X86_INS_MOV && i)))
			return &x86->operands[i];
	return NULL;
}

/* Whether the instruction decoded last asks whether a value is 0. */
static bool is_zero_test(struct python_state *state, const struct python_value *value)
{
	const cs_insn *insn = state->code->insn;
	const cs_x86_op *op = insn->detail->x86.operands;
	struct python_value first;

	if ((insn->id != X86_INS_TEST && insn->id != X86_INS_CMP) || insn->detail->x86.op_count != 2)
		return false;
	first = python_state_operand(state, &op[0]);
	if (!python_values_equal(&first, value))
		return false;
	if (insn->id == X86_INS_CMP)
		return op[1].type == X86_OP_IMM && !op[1].imm;
	return op[1].type == X86_OP_REG && op[0].type == X86_OP_REG && op[1].reg == op[0].reg;
}

static bool keeps_flags(const cs_insn *insn)
{
	return insn->id == X86_INS_MOV || insn->id == X86_INS_LEA || insn->id == X86_INS_CDQE || insn->id == X86_INS_MOVABS ||
	       insn->id == X86_INS_MOVZX || insn->id == X86_INS_MOVSXD || insn->id == X86_INS_NOP;
}

/* From an instruction that reads the flag to the jump that depends on it. *ret_test: behind the test. */
static bool find_flag_jump(struct creations *creations, uint64_t read, uint64_t *ret_test, uint64_t *ret_jump)
{
	struct python_code *code = &creations->search->code;
	struct python_state state;
	struct python_value value;
	uint64_t at = read;

	python_state_begin(&state, code, false);
	if (!python_code__decode(code, read))
		return false;
	value = python_state_operand(&state, flag_operand(code, creations->flag));
	*ret_test = 0;
	for (int i = 0; i < READ_TO_JUMP_MAX && python_code__decode(code, at); i++) {
		if (*ret_test && (code->insn->id == X86_INS_JE || code->insn->id == X86_INS_JNE)) {
			*ret_jump = at;
			return python_code__is_jcc(code);
		}
		at += code->insn->size;
		if (is_zero_test(&state, &value))
			*ret_test = at;
		else if ((*ret_test && !keeps_flags(code->insn)) || python_code__leaves(code) || !python_state_step(&state))
			return false;
	}
	return false;
}

/* ---- from the jump to the call ---- */

/* Where the thread goes if the flag is set. The jump was decoded last. */
static uint64_t branch_if_set(const struct python_code *code)
{
	const cs_insn *insn = code->insn;

	return insn->id == X86_INS_JNE ? (uint64_t)insn->detail->x86.operands[0].imm : insn->address + insn->size;
}

/* Follows a straight line to the first call of a fixed place, or to a jump to the function. False: there is none. */
static bool find_told_call(const struct creations *creations, struct python_state *state, uint64_t at, uint64_t *ret_target)
{
	struct python_code *code = state->code;

	for (int i = 0; i < JUMP_TO_CALL_MAX && python_code__decode(code, at); i++) {
		if (python_code__is_call(code, ret_target))
			return true;
		if (python_code__is_jump(code, ret_target)) {
			if (*ret_target == creations->function)
				return true;
			at = *ret_target;
			continue;
		}
		if (python_code__leaves(code) || !python_state_step(state))
			return false;
		at += code->insn->size;
	}
	return false;
}

static bool has_creation_at(const struct python_info *info, uint64_t vaddr)
{
	for (uint32_t i = 0; i < info->site_nr; i++)
		if (info->site[i].vaddr == vaddr)
			return true;
	return false;
}

/* Adds the place that belongs to an instruction that reads the flag, if it is understood. 0, -ENOMEM or -E2BIG. */
static int add_creation(struct creations *creations, uint64_t read)
{
	static const struct argument_source none = {
		.bytes = 8, .scale = 1, .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER,
	};
	struct python_site site = {
		.operation = PYTHON_CREATION, .domain = PYTHON_OBJECT, .size = none, .count = none,
	};
	struct python_code *code = &creations->search->code;
	struct python_state state;
	uint64_t test, target;
	int err;

	if (!find_flag_jump(creations, read, &test, &site.vaddr) ||
	    python_branches__lead_to(&creations->branches, test, site.vaddr))
		return 0;
	python_state_begin(&state, code, false);
	if (!find_told_call(creations, &state, branch_if_set(code), &target) || target != creations->function ||
	    !python_value_source(&state, &state.reg[RDI], &site.pointer))
		return 0;
	err = array_push(creations, call, code->insn->address);
	if (err || has_creation_at(creations->search->info, site.vaddr))
		return err;
	return python_add_site(creations->search, &site);
}

/* ---- all of them ---- */

/* Finds the flag and the function in _Py_NewReference(). */
static bool find_flag(struct creations *creations)
{
	const struct python_search *search = creations->search;
	struct python_code *code = &creations->search->code;
	uint64_t at = search->symbol[SYMBOL_NEW_REFERENCE], test, jump, flag;
	const cs_x86 *x86 = NULL;
	struct python_state state;

	if (!at || !python_code__decode(code, at))
		return false;
	if (code->insn->id == X86_INS_ENDBR64) {
		at += code->insn->size;
		python_code__decode(code, at);
	}
	x86 = &code->insn->detail->x86;
	for (unsigned int i = 0; i < x86->op_count && !creations->flag; i++)
		if (python_is_variable(code, &x86->operands[i], 4, &flag) && flag >= search->info->data_start &&
		    flag < search->info->data_end)
			creations->flag = flag;
	if (!creations->flag || !flag_operand(code, creations->flag) || !find_flag_jump(creations, at, &test, &jump))
		return false;
	python_state_begin(&state, code, false);
	return find_told_call(creations, &state, branch_if_set(code), &creations->function);
}

static int note_reads(struct creations *creations, uint64_t start, uint64_t end)
{
	struct python_code *code = &creations->search->code;
	int err = 0;

	for (uint64_t at = start, next; at < end && !err && python_code__decode(code, at); at = next) {
		next = at + code->insn->size;
		err = python_branches__note_short(&creations->branches, code);
		if (!err && flag_operand(code, creations->flag))
			err = array_push(creations, read, at);
	}
	return err;
}

/* Whether the four bytes there may lead to the flag; a number of one byte may follow. */
static bool may_name_flag(const struct creations *creations, size_t at)
{
	const struct python_code *code = &creations->search->code;
	int32_t number;
	uint64_t behind;

	memcpy(&number, code->byte + at, sizeof(number));
	behind = creations->flag - (code->start + at + sizeof(number));
	return (uint64_t)number == behind || (uint64_t)number == behind - 1 ||
	       (code->is_fixed && (uint64_t)number == creations->flag);
}

static int find_reads(struct creations *creations)
{
	const struct python_code *code = &creations->search->code;
	int err = 0;

	for (size_t at = 0; at + 4 <= code->size && !err; at++) {
		uint64_t start, end;

		if (!may_name_flag(creations, at) || !python_code__extent(code, code->start + at, &start, &end) ||
		    end - start > FUNCTION_BYTES_MAX)
			continue;
		err = note_reads(creations, start, end);
		at = end - code->start - 1;
	}
	return err ?: python_branches__note_long(&creations->branches, code);
}

static bool is_understood(const struct creations *creations, uint64_t call)
{
	for (size_t i = 0; i < creations->call_nr; i++)
		if (creations->call[i] == call)
			return true;
	return false;
}

/* Calls of the function, and jumps to it, that no place leads to. */
static uint32_t count_other_calls(const struct creations *creations)
{
	const struct python_code *code = &creations->search->code;
	uint32_t nr = 0;

	for (size_t at = 0; at + 5 <= code->size; at++) {
		int32_t distance;

		if (code->byte[at] != 0xe8 && code->byte[at] != 0xe9)
			continue;
		memcpy(&distance, code->byte + at + 1, sizeof(distance));
		nr += code->start + at + 5 + distance == creations->function && !is_understood(creations, code->start + at);
	}
	return nr;
}

int python_find_creations(struct python_search *search)
{
	struct creations creations = { .search = search };
	int err = 0;

	if (!find_flag(&creations))
		return 0;
	err = find_reads(&creations);
	for (size_t i = 0; i < creations.read_nr && !err; i++)
		err = add_creation(&creations, creations.read[i]);
	if (!err)
		search->info->creation_unknown_nr = count_other_calls(&creations);
	free(creations.read);
	free(creations.call);
	python_branches__release(&creations.branches);
	return err;
}
