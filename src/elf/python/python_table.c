// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The three tables of allocators, which static variables or _PyRuntime hold: exported functions call through them. */
#include "elf/elf_object.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"

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
		if (!python_code__is_jcc(code) && (python_code__leaves(code) || !python_state_step(&state)))
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
