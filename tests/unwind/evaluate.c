// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "evaluate.h"

#include <dwarf.h>

#define STACK_MAX 16

struct machine {
	const struct registers *registers;
	memory_fn read;
	void *memory;
	uint64_t cfa;
	uint64_t stack[STACK_MAX];
	unsigned int nr;
	bool is_more, is_value;
};

static void push(struct machine *machine, uint64_t value)
{
	if (machine->nr == STACK_MAX)
		machine->is_more = true;
	else
		machine->stack[machine->nr++] = value;
}

static uint64_t pop(struct machine *machine)
{
	if (machine->nr)
		return machine->stack[--machine->nr];
	machine->is_more = true;
	return 0;
}

static uint64_t register_value(struct machine *machine, uint64_t number)
{
	switch (number) {
	case 6:
		return machine->registers->fp;
	case 7:
		return machine->registers->sp;
	case 16:
		return machine->registers->pc;
	}
	machine->is_more = true;
	return 0;
}

static void binary(struct machine *machine, int atom)
{
	uint64_t right = pop(machine), left = pop(machine);

	switch (atom) {
	case DW_OP_plus:
		push(machine, left + right);
		break;
	case DW_OP_and:
		push(machine, left & right);
		break;
	case DW_OP_ge:
		push(machine, (int64_t)left >= (int64_t)right);
		break;
	case DW_OP_shl:
		push(machine, left << (right & 63));
		break;
	}
}

static void dereference(struct machine *machine)
{
	uint64_t value = 0;

	if (!machine->read(machine->memory, pop(machine), &value))
		machine->is_more = true;
	push(machine, value);
}

static void run_one(struct machine *machine, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		push(machine, register_value(machine, op->atom - DW_OP_breg0) + op->number);
		return;
	}
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31) {
		push(machine, op->atom - DW_OP_lit0);
		return;
	}
	switch (op->atom) {
	case DW_OP_bregx:
		push(machine, register_value(machine, op->number) + op->number2);
		break;
	case DW_OP_call_frame_cfa:
		push(machine, machine->cfa);
		break;
	case DW_OP_plus_uconst:
		push(machine, pop(machine) + op->number);
		break;
	case DW_OP_deref:
		dereference(machine);
		break;
	case DW_OP_stack_value:
		machine->is_value = true;
		break;
	case DW_OP_plus:
	case DW_OP_and:
	case DW_OP_ge:
	case DW_OP_shl:
		binary(machine, op->atom);
		break;
	default:
		machine->is_more = true;
	}
}

static enum told run(struct machine *machine, const Dwarf_Op *ops, size_t nr, uint64_t *ret)
{
	for (size_t i = 0; i < nr; i++)
		run_one(machine, &ops[i]);
	*ret = pop(machine);
	return machine->is_more ? TOLD_MORE : TOLD;
}

enum told evaluate_cfa(Dwarf_Frame *frame, const struct registers *registers, memory_fn read,
		       void *memory, uint64_t *ret)
{
	struct machine machine = { .registers = registers, .read = read, .memory = memory };
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr) || !nr)
		return TOLD_MORE;
	return run(&machine, ops, nr, ret);
}

enum told evaluate_register(Dwarf_Frame *frame, int number, const struct registers *registers,
			    memory_fn read, void *memory, uint64_t *ret, uint64_t *ret_at)
{
	struct machine machine = { .registers = registers, .read = read, .memory = memory };
	Dwarf_Op space[3], *ops;
	enum told told;
	size_t nr;

	*ret_at = 0;
	if (dwarf_frame_register(frame, number, space, &ops, &nr))
		return TOLD_MORE;
	if (!nr && ops)
		return TOLD_UNDEFINED;
	if (!nr) {
		*ret = register_value(&machine, number);
		return TOLD;
	}
	if (evaluate_cfa(frame, registers, read, memory, &machine.cfa) != TOLD)
		return TOLD_MORE;
	told = run(&machine, ops, nr, ret);
	if (told != TOLD || machine.is_value)
		return told;
	*ret_at = *ret;
	return read(memory, *ret_at, ret) ? TOLD : TOLD_MORE;
}
