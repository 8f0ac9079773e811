// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Places where an object begins: in a new block, or in one that a free list has kept. CPython calls tracemalloc there, if
 * it is tracing (_Py_NewReference(), copied to where objects are made). Until 3.12:
 *
 *	mov  _Py_tracemalloc_config.tracing, %eax	◄── the flag
 *	test %eax, %eax
 *	jne  cold		◄── the place, whether it is taken or not
 * cold: mov %r12, %rdi		◄── so the object is what r12 holds at the jump
 *	call _PyTraceMalloc_NewReference
 *
 * From 3.13 on the flag is a pointer to a function, which tracemalloc sets. CPython calls it for objects that end, too:
 *
 *	mov  _PyRuntime.ref_tracer.tracer_func, %rax
 *	test %rax, %rax
 *	jne  cold
 * cold: cmp $_PyTraceMalloc_TraceRef, %rax	◄── profile-guided builds only
 *	je   copy
 *	mov  _PyRuntime.ref_tracer.tracer_data, %rdx
 *	xor  %esi, %esi		◄── PyRefTracer_CREATE; 1: PyRefTracer_DESTROY
 *	mov  %r12, %rdi
 *	call *%rax
 *
 * The function that is exported as _Py_NewReference has the flag and the call, too: they are found in it. A libpython reads
 * the flag through a register with the address of the variable that it is a part of.
 */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/python/python_code.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"
#include "elf/x86_registers.h"

#define FUNCTION_BYTES_MAX (1u << 20)
#define READ_TO_JUMP_MAX 16 /* instructions */
#define JUMP_TO_CALL_MAX 40
#define TRACER_DATA 8	      /* tracer_data - tracer_func */
#define TRACER_CREATE 0	      /* PyRefTracerEvent */
#define TRACER_DESTROY 1

#define IN_REGISTER(field) (offsetof(struct x86_registers, field) / 8)

struct creations {
	struct python_search *search;
	bool is_tracer;	   /* the flag is a pointer to the function */
	uint64_t flag;
	uint64_t slot;	   /* where the file has the address of the flag's variable; 0: its code has it */
	uint64_t distance; /* from there to the flag */
	uint64_t function; /* what is called if the flag is set; 0: not known yet, or the flag has it */
	uint64_t *read;	   /* instructions that read the flag */
	size_t read_nr, read_alloc;
	uint64_t *call; /* calls of the function that were understood */
	size_t call_nr, call_alloc;
	struct python_branches branches;
};

/* ---- from the flag to the jump ---- */

static unsigned int flag_bytes(const struct creations *creations)
{
	return creations->is_tracer ? 8 : 4;
}

/* The operand in memory, as large as the flag, of an instruction that only reads it, or NULL. */
static const cs_x86_op *read_operand(const struct creations *creations)
{
	const cs_insn *insn = creations->search->code.insn;
	const cs_x86 *x86 = &insn->detail->x86;

	if (x86->op_count != 2)
		return NULL;
	for (unsigned int i = 0; i < 2; i++)
		if (x86->operands[i].type == X86_OP_MEM && x86->operands[i].size == flag_bytes(creations) &&
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
	value = python_state_operand(&state, read_operand(creations));
	*ret_test = 0;
	for (int i = 0; i < READ_TO_JUMP_MAX && python_code__decode(code, at); i++) {
		if (*ret_test && (code->insn->id == X86_INS_JE || code->insn->id == X86_INS_JNE)) {
			*ret_jump = at;
			return insn_is_jcc(code->insn);
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

/* Until 3.12: follows a straight line to the first call of a fixed place, or to a jump to the function. */
static bool find_fixed_call(struct creations *creations, struct python_state *state, uint64_t at)
{
	struct python_code *code = state->code;
	uint64_t target;

	for (int i = 0; i < JUMP_TO_CALL_MAX && python_code__decode(code, at); i++) {
		bool is_call = python_code__is_call(code, &target);

		if (!is_call && python_code__is_jump(code, &target) && target != creations->function) {
			at = target;
			continue;
		}
		if (is_call || python_code__is_jump(code, &target)) {
			if (!creations->function)
				creations->function = target;
			return target == creations->function;
		}
		if (python_code__leaves(code) || !python_state_step(state))
			return false;
		at += code->insn->size;
	}
	return false;
}

/* Whether the instruction decoded last compares a value with the address of code. */
static bool compares_function(struct python_state *state)
{
	const cs_insn *insn = state->code->insn;

	for (unsigned int i = 0; insn->id == X86_INS_CMP && i < insn->detail->x86.op_count; i++) {
		struct python_value value = python_state_operand(state, &insn->detail->x86.operands[i]);
		uint64_t at;

		if (python_value_is_constant(&value, &at) && python_code__has(state->code, at))
			return true;
	}
	return false;
}

/* Whether the instruction decoded last loads the tracer's third argument, which lies behind the flag. */
static bool loads_tracer_data(const struct creations *creations, const struct python_state *state)
{
	const cs_insn *insn = state->code->insn;
	const cs_x86_op *op = read_operand(creations);
	struct python_value address;
	uint64_t at;

	if (!op || insn->id != X86_INS_MOV || insn->detail->x86.operands[0].reg != X86_REG_RDX)
		return false;
	address = python_state_address(state, &op->mem);
	if (python_value_is_constant(&address, &at))
		return at == creations->flag + TRACER_DATA;
	return address.is_known && creations->slot && at == creations->distance + TRACER_DATA;
}

/* From 3.13 on: follows a line to the call of the tracer, past a copy of a function. *ret_event: its event. */
static bool find_tracer_call(const struct creations *creations, struct python_state *state, uint64_t at, uint64_t *ret_event)
{
	struct python_code *code = state->code;
	bool is_compared = false, has_data = false;

	for (int i = 0; i < JUMP_TO_CALL_MAX && python_code__decode(code, at); i++) {
		unsigned int id = code->insn->id;

		if (insn_calls_pointer(code->insn))
			return has_data && python_value_is_constant(&state->reg[IN_REGISTER(rsi)], ret_event);
		if (python_code__is_jump(code, &at))
			continue;
		at += code->insn->size;
		if (is_compared && (id == X86_INS_JE || id == X86_INS_JNE)) {
			if (id == X86_INS_JNE)
				at = code->insn->detail->x86.operands[0].imm;
			is_compared = false;
			continue;
		}
		is_compared = compares_function(state) || (is_compared && keeps_flags(code->insn));
		has_data |= loads_tracer_data(creations, state);
		if (python_code__leaves(code) || !python_state_step(state))
			return false;
	}
	return false;
}

enum told {
	TOLD_UNKNOWN,
	TOLD_CREATION, /* the object is in rdi, the call was decoded last */
	TOLD_DESTRUCTION,
};

/* Follows the line on which the flag is set, from the jump that was decoded last. */
static enum told follow_told(struct creations *creations, struct python_state *state)
{
	uint64_t at = branch_if_set(state->code), event;

	python_state_begin(state, state->code, false);
	if (!creations->is_tracer)
		return find_fixed_call(creations, state, at) ? TOLD_CREATION : TOLD_UNKNOWN;
	if (!find_tracer_call(creations, state, at, &event))
		return TOLD_UNKNOWN;
	return event == TRACER_CREATE ? TOLD_CREATION : event == TRACER_DESTROY ? TOLD_DESTRUCTION : TOLD_UNKNOWN;
}

static bool has_creation_at(const struct python_info *info, uint64_t vaddr)
{
	for (uint32_t i = 0; i < info->site_nr; i++)
		if (info->site[i].vaddr == vaddr)
			return true;
	return false;
}

/* The function that returns the flag asks no question. */
static bool is_in_getter(const struct python_search *search, uint64_t vaddr)
{
	return vaddr - search->symbol[SYMBOL_GET_TRACER] < search->symbol_bytes[SYMBOL_GET_TRACER];
}

/* Adds the place that belongs to an instruction that reads the flag, if it is understood. 0, -ENOMEM or -E2BIG. */
static int add_creation(struct creations *creations, uint64_t read)
{
	struct python_search *search = creations->search;
	struct python_site site = {
		.operation = PYTHON_CREATION, .domain = PYTHON_OBJECT, .size = NO_ARGUMENT, .count = NO_ARGUMENT,
	};
	struct python_state state = { .code = &search->code };
	enum told told = TOLD_UNKNOWN;
	uint64_t test;
	int err;

	if (find_flag_jump(creations, read, &test, &site.vaddr) &&
	    !python_branches__lead_to(&creations->branches, test, site.vaddr))
		told = follow_told(creations, &state);
	if (told == TOLD_CREATION && !python_value_source(&state, &state.reg[IN_REGISTER(rdi)], &site.pointer))
		told = TOLD_UNKNOWN;
	if (told == TOLD_UNKNOWN && creations->is_tracer)
		search->info->creation_unknown_nr += !is_in_getter(search, read);
	if (told != TOLD_CREATION)
		return 0;
	err = array_push(creations, call, search->code.insn->address);
	if (err || has_creation_at(search->info, site.vaddr))
		return err;
	return python_add_site(search, &site);
}

/* ---- all of them ---- */

static bool is_variable_address(const struct python_info *info, const struct python_value *address, uint64_t *ret)
{
	return python_value_is_constant(address, ret) && *ret >= info->data_start && *ret < info->data_end;
}

/* Whether the instruction decoded last reads a variable; the flag is one. */
static bool may_read_flag(struct creations *creations, const struct python_state *state)
{
	const cs_x86_op *op = read_operand(creations);
	struct python_value address;

	if (!op)
		return false;
	address = python_state_address(state, &op->mem);
	if (!is_variable_address(creations->search->info, &address, &creations->flag))
		return false;
	if (op->mem.base == X86_REG_RIP || op->mem.base == X86_REG_INVALID)
		creations->slot = 0;
	creations->distance = op->mem.disp;
	return true;
}

/* The instruction decoded last may load the address of the flag's variable. */
static void note_slot(struct creations *creations)
{
	const cs_x86 *x86 = &creations->search->code.insn->detail->x86;
	uint64_t at;

	if (creations->search->code.insn->id == X86_INS_MOV && x86->op_count == 2 &&
	    python_is_variable(&creations->search->code, &x86->operands[1], 8, &at))
		creations->slot = at;
}

/* Finds the flag and what is called in _Py_NewReference(). */
static bool find_flag(struct creations *creations)
{
	struct python_code *code = &creations->search->code;
	uint64_t at = creations->search->symbol[SYMBOL_NEW_REFERENCE], test, jump;
	struct python_state state, told = { .code = code };

	python_state_begin(&state, code, true);
	for (int i = 0; at && i < READ_TO_JUMP_MAX && python_code__decode(code, at); i++) {
		if (may_read_flag(creations, &state) && find_flag_jump(creations, at, &test, &jump))
			return follow_told(creations, &told) == TOLD_CREATION;
		if (!python_code__decode(code, at) || python_code__leaves(code) || !python_state_step(&state))
			return false;
		note_slot(creations);
		at += code->insn->size;
	}
	return false;
}

/* Whether the instruction decoded last reads the flag: the next ones show what for. */
static bool reads_flag(const struct creations *creations, const struct python_state *state)
{
	const cs_x86_op *op = read_operand(creations);
	struct python_value address;
	uint64_t at;

	if (!op)
		return false;
	address = python_state_address(state, &op->mem);
	return python_value_is_constant(&address, &at) && at == creations->flag;
}

static int note_reads(struct creations *creations, uint64_t start, uint64_t end)
{
	struct python_code *code = &creations->search->code;
	struct python_state state;
	int err = 0;

	python_state_begin(&state, code, true);
	for (uint64_t at = start, next; at < end && !err && python_code__decode(code, at); at = next) {
		next = at + code->insn->size;
		err = python_branches__note_short(&creations->branches, code);
		if (!err && reads_flag(creations, &state))
			err = array_push(creations, read, at);
		if (!insn_is_jcc(code->insn) && (python_code__leaves(code) || !python_state_step(&state)))
			python_state_begin(&state, code, true);
	}
	return err;
}

/* Whether the four bytes there may lead to the flag, or to where its variable's address is; a number of one byte may follow. */
static bool may_name_flag(const struct creations *creations, size_t at)
{
	const struct python_code *code = &creations->search->code;
	uint64_t named = creations->slot ?: creations->flag, behind;
	int32_t number;

	memcpy(&number, code->byte + at, sizeof(number));
	behind = named - (code->start + at + sizeof(number));
	return (uint64_t)number == behind || (uint64_t)number == behind - 1 || (code->is_fixed && (uint64_t)number == named);
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
	struct creations creations = { .search = search, .is_tracer = search->info->version.minor > 12 };
	int err = 0;

	if (!find_flag(&creations))
		return 0;
	search->info->tracer = creations.is_tracer ? creations.flag : 0;
	err = find_reads(&creations);
	for (size_t i = 0; i < creations.read_nr && !err; i++)
		err = add_creation(&creations, creations.read[i]);
	if (!err && !creations.is_tracer)
		search->info->creation_unknown_nr = count_other_calls(&creations);
	free(creations.read);
	free(creations.call);
	python_branches__release(&creations.branches);
	return err;
}
