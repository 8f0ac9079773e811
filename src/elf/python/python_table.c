// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_private.h"

#include <stdlib.h>

#include "elf/elf_object.h"
#include "elf/python/python_value.h"

/* The three tables of allocators, which static variables or _PyRuntime hold: exported functions call through them. */

#define TABLE_CODE_MAX 400 /* bytes of a function that is searched */

/* Whether a table begins there: a context, and four functions of this file. */
static bool is_table(const struct python_search *search, uint64_t vaddr)
{
	uint64_t function;

	for (unsigned int i = 0; i < PYTHON_OPERATION_NR; i++)
		if (elf_object__pointer_at(search->elf, vaddr + 8 * (i + 1), &function) || !function ||
		    !python_code__has(&search->code, function))
			return false;
	return true;
}

/* The instruction loads a table's first function, malloc. */
static bool table_of_insn(const struct python_search *search, const struct python_state *state, uint64_t *ret)
{
	const cs_x86 *x86 = &search->code.insn->detail->x86;

	for (size_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		struct python_value address;

		if (op->type != X86_OP_MEM || op->size != 8)
			continue;
		address = python_state_address(state, &op->mem);
		if (python_value_is_constant(&address, ret) && is_table(search, *ret - 8)) {
			*ret -= 8;
			return true;
		}
	}
	return false;
}

/* Behind an instruction that cannot be followed nothing is known. */
static bool find_table(struct python_search *search, uint64_t function, uint64_t *ret)
{
	struct python_code *code = &search->code;
	uint64_t end = function + TABLE_CODE_MAX;
	struct python_state state;

	python_state_begin(&state, code, true);
	for (uint64_t at = function; at < end && python_code__decode(code, at); at += code->insn->size) {
		if (code->insn->id != X86_INS_LEA && table_of_insn(search, &state, ret))
			return true;
		if (code->insn->id == X86_INS_RET)
			return false;
		if (!insn_is_jcc(code->insn) && (python_code__leaves(code) || !python_state_step(&state)))
			python_state_begin(&state, code, true);
	}
	return false;
}

bool python_find_tables(struct python_search *search)
{
	static const enum python_symbol symbols[PYTHON_DOMAIN_NR] = {
		[PYTHON_RAW] = SYMBOL_RAW_MALLOC, [PYTHON_MEM] = SYMBOL_MEM_MALLOC, [PYTHON_OBJECT] = SYMBOL_OBJECT_MALLOC,
	};
	static const char *const names[] = { "PyMem_RawMalloc", "PyMem_Malloc", "PyObject_Malloc" };
	struct python_info *info = search->info;

	for (unsigned int i = 0; i < PYTHON_DOMAIN_NR; i++) {
		uint64_t function = search->symbol[symbols[i]];

		if (!function)
			return python_info__refuse(info, "it does not export %s", names[i]);
		if (!find_table(search, function, &info->table[i]))
			return python_info__refuse(info, "the table of allocators was not found in the code of %s", names[i]);
		for (unsigned int k = 0; k < PYTHON_OPERATION_NR; k++)
			elf_object__pointer_at(search->elf, info->table[i] + 8 * (k + 1), &info->function[i][k]);
	}
	return true;
}

/*
 * Where pymalloc keeps its pools and arenas. From 3.12 on they are in a structure of the interpreter. Until 3.11 they are
 * static variables, which stripped files do not name, so they are taken from the code:
 *
 *	_PyObject_Malloc:	mov usedpools(,%rax,8), %rdx
 *				call allocate_from_new_pool
 *	allocate_from_new_pool:	mov usable_arenas, %rbx
 *				sub arenas, %rdx		the number of an arena
 *				mov maxarenas, %eax … mov %r13d, maxarenas
 */

#define MALLOC_CODE_MAX 512
#define STATIC_SPREAD 64 /* bytes between arenas and maxarenas */

/* struct _obmalloc_state, from 3.12 on. */
#define STATE_USED_POOLS 0
#define STATE_ARENAS 512
#define STATE_MAX_ARENAS 520
#define STATE_USABLE_ARENAS 536

bool python_is_variable(const struct python_code *code, const cs_x86_op *op, unsigned int bytes, uint64_t *ret)
{
	if (op->type != X86_OP_MEM || op->size != bytes || op->mem.index != X86_REG_INVALID)
		return false;
	if (op->mem.base == X86_REG_RIP)
		*ret = code->insn->address + code->insn->size + op->mem.disp;
	else if (op->mem.base == X86_REG_INVALID && code->is_fixed)
		*ret = op->mem.disp;
	else
		return false;
	return true;
}

static bool is_data(const struct python_info *info, uint64_t vaddr)
{
	return vaddr >= info->data_start && vaddr < info->data_end;
}

/* An element of an array of pointers that is at a fixed address. */
static bool is_array(const struct python_state *state, const cs_x86_op *op, uint64_t *ret)
{
	struct python_value base;
	x86_op_mem memory = op->mem;

	if (op->type != X86_OP_MEM || op->size != 8 || memory.index == X86_REG_INVALID || memory.scale != 8)
		return false;
	memory.index = X86_REG_INVALID;
	base = python_state_address(state, &memory);
	return python_value_is_constant(&base, ret);
}

/* The variables that allocate_from_new_pool() uses. */
struct pool_variables {
	uint64_t usable_arenas, arenas;
	uint64_t loaded[16]; /* of four bytes */
	uint32_t loaded_nr;
	uint64_t max_arenas;
	bool is_contradictory;
};

static void note_variable(uint64_t *variable, uint64_t found, bool *is_contradictory)
{
	*is_contradictory |= *variable && *variable != found;
	*variable = found;
}

static void note_insn(const struct python_search *search, struct pool_variables *found)
{
	const struct python_code *code = &search->code;
	const cs_x86 *x86 = &code->insn->detail->x86;
	const cs_x86_op *to = &x86->operands[0], *from = &x86->operands[1];
	uint64_t at;

	if (x86->op_count != 2)
		return;
	if (!found->usable_arenas && code->insn->id == X86_INS_MOV && python_is_variable(code, from, 8, &at))
		found->usable_arenas = at;
	if (code->insn->id == X86_INS_SUB && to->type == X86_OP_REG && python_is_variable(code, from, 8, &at))
		note_variable(&found->arenas, at, &found->is_contradictory);
	if (code->insn->id != X86_INS_MOV)
		return;
	if (python_is_variable(code, from, 4, &at) && found->loaded_nr < 16)
		found->loaded[found->loaded_nr++] = at;
}

/* maxarenas is loaded and stored in whole, near to arenas. */
static void note_store(const struct python_search *search, struct pool_variables *found)
{
	const struct python_code *code = &search->code;
	const cs_x86 *x86 = &code->insn->detail->x86;
	uint64_t at;

	if (code->insn->id != X86_INS_MOV || x86->operands[1].type != X86_OP_REG ||
	    !python_is_variable(code, &x86->operands[0], 4, &at) || llabs((int64_t)(at - found->arenas)) > STATIC_SPREAD)
		return;
	for (uint32_t i = 0; i < found->loaded_nr; i++)
		if (found->loaded[i] == at)
			note_variable(&found->max_arenas, at, &found->is_contradictory);
}

static bool find_arenas(struct python_search *search, uint64_t function, struct pool_variables *found)
{
	struct python_code *code = &search->code;
	uint64_t start, end;

	*found = (struct pool_variables){};
	if (!python_code__extent(code, function, &start, &end) || start != function)
		return false;
	for (uint64_t at = start; at < end && python_code__decode(code, at); at += code->insn->size)
		note_insn(search, found);
	for (uint64_t at = start; at < end && python_code__decode(code, at); at += code->insn->size)
		note_store(search, found);
	return found->usable_arenas && found->arenas && found->max_arenas && !found->is_contradictory &&
	       is_data(search->info, found->usable_arenas) && is_data(search->info, found->arenas) &&
	       is_data(search->info, found->max_arenas);
}

/* From _PyObject_Malloc(): usedpools, and the rest from a function that it calls behind that. */
static bool find_static_pools(struct python_search *search, struct pool_variables *found)
{
	uint64_t start = search->info->function[PYTHON_OBJECT][PYTHON_MALLOC], at = start, array, target, next;
	uint64_t *used_pools = &search->info->pools.used_pools;
	struct python_code *code = &search->code;
	struct python_state state;

	python_state_begin(&state, code, true);
	for (; at - start < MALLOC_CODE_MAX && python_code__decode(code, at); at = next) {
		const cs_x86 *x86 = &code->insn->detail->x86;

		next = at + code->insn->size;
		for (size_t i = 0; i < x86->op_count && !*used_pools && code->insn->id != X86_INS_LEA; i++)
			if (is_array(&state, &x86->operands[i], &array) && is_data(search->info, array))
				*used_pools = array;
		if (!insn_is_jcc(code->insn) && (python_code__leaves(code) || !python_state_step(&state)))
			python_state_begin(&state, code, true);
		if (*used_pools && python_code__is_call(code, &target) && find_arenas(search, target, found))
			return true;
	}
	return false;
}

void python_find_pools(struct python_search *search)
{
	struct python_pools *pools = &search->info->pools;
	struct pool_variables found;
	bool is_old = search->info->version.minor < 10;

	pools->pool_bytes = is_old ? 4096 : 16384;
	pools->arena_bytes = is_old ? 256 << 10 : 1 << 20;
	if (pools->in_interpreter) {
		pools->used_pools = STATE_USED_POOLS;
		pools->usable_arenas = STATE_USABLE_ARENAS;
		pools->arenas = STATE_ARENAS;
		pools->max_arenas = STATE_MAX_ARENAS;
		pools->is_known = 1;
		return;
	}
	if (!find_static_pools(search, &found)) {
		*pools = (struct python_pools){};
		return;
	}
	pools->usable_arenas = found.usable_arenas;
	pools->arenas = found.arenas;
	pools->max_arenas = found.max_arenas;
	pools->is_known = 1;
}
