// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_value.h"

#include <string.h>

#include "elf/argument_source.h"
#include "elf/elf_object.h"
#include "elf/x86_registers.h"

#define RAX (offsetof(struct x86_registers, rax) / 8)
#define RSP (offsetof(struct x86_registers, rsp) / 8)
#define RBP (offsetof(struct x86_registers, rbp) / 8)

static const struct python_value unknown_value;

static struct python_value constant_value(uint64_t value, bool is_place)
{
	return (struct python_value){
		.is_known = true, .is_place = is_place,
		.source = { .kind = ARGUMENT_ADDRESS, .bytes = 8, .scale = 1, .value = value,
			    .base = ARGUMENT_NO_REGISTER, .index = ARGUMENT_NO_REGISTER },
	};
}

static bool is_sum(const struct python_value *value)
{
	return value->is_known && value->source.kind == ARGUMENT_ADDRESS && value->source.bytes == 8;
}

bool python_value_is_constant(const struct python_value *value, uint64_t *ret)
{
	*ret = value->source.value;
	return is_sum(value) && value->source.base == ARGUMENT_NO_REGISTER &&
	       value->source.index == ARGUMENT_NO_REGISTER;
}

bool python_values_equal(const struct python_value *a, const struct python_value *b)
{
	return a->is_known && b->is_known && a->is_place == b->is_place &&
	       !memcmp(&a->source, &b->source, sizeof(a->source));
}

bool python_value_source(const struct python_state *state, const struct python_value *value,
			 struct argument_source *ret)
{
	const struct argument_source *source = &value->source;

	if (!value->is_known || (value->is_place && !state->code->is_fixed))
		return false;
	*ret = *source;
	if (source->kind == ARGUMENT_MEMORY || source->index != ARGUMENT_NO_REGISTER)
		return true;
	if (source->base == ARGUMENT_NO_REGISTER)
		ret->kind = ARGUMENT_CONSTANT;
	else if (!source->value)
		ret->kind = ARGUMENT_REGISTER;
	return true;
}

/* ---- sums ---- */

/* a + b * scale, if it has at most two registers. */
static struct python_value add_values(const struct python_value *a, const struct python_value *b, unsigned int scale)
{
	struct python_value sum = *a;

	if (!is_sum(a) || !is_sum(b) || (a->is_place && b->is_place) || (b->is_place && scale != 1))
		return unknown_value;
	sum.is_place |= b->is_place;
	sum.source.value += b->source.value * scale;
	if (b->source.index != ARGUMENT_NO_REGISTER) {
		/* b has an index: it stays the sum's, so a may have a base only, and b none */
		unsigned int product = b->source.scale * scale;

		if (a->source.index != ARGUMENT_NO_REGISTER || product > 255 ||
		    (b->source.base != ARGUMENT_NO_REGISTER &&
		     (scale != 1 || a->source.base != ARGUMENT_NO_REGISTER)))
			return unknown_value;
		sum.source.index = b->source.index;
		sum.source.scale = product;
		if (b->source.base != ARGUMENT_NO_REGISTER)
			sum.source.base = b->source.base;
		return sum;
	}
	if (b->source.base == ARGUMENT_NO_REGISTER)
		return sum;
	if (scale == 1 && a->source.base == ARGUMENT_NO_REGISTER) {
		sum.source.base = b->source.base;
		return sum;
	}
	if (a->source.index != ARGUMENT_NO_REGISTER || scale > 255)
		return unknown_value;
	sum.source.index = b->source.base;
	sum.source.scale = scale;
	return sum;
}

static struct python_value add_to_value(const struct python_value *a, uint64_t number)
{
	const struct python_value b = constant_value(number, false);

	return add_values(a, &b, 1);
}

static struct python_value shift_value(const struct python_value *a, uint64_t bits)
{
	const struct python_value zero = constant_value(0, false);

	return bits < 8 ? add_values(&zero, a, 1u << bits) : unknown_value;
}

/* Cuts a value to `bytes`, and extends it by zeros or by its sign. */
static struct python_value narrow_value(struct python_value value, unsigned int bytes, bool is_signed)
{
	uint64_t number;

	if (!value.is_known || bytes >= 8)
		return value;
	if (python_value_is_constant(&value, &number)) {
		unsigned int shift = 64 - 8 * bytes;

		number <<= shift;
		value.source.value = is_signed ? (uint64_t)((int64_t)number >> shift) : number >> shift;
		return value;
	}
	if (value.source.bytes < bytes && value.source.is_signed)
		return unknown_value;
	if (value.source.bytes < bytes)
		return value;
	value.source.bytes = bytes;
	value.source.is_signed = is_signed;
	return value;
}

/* ---- operands ---- */

static bool register_number(const struct python_code *code, x86_reg reg, unsigned int *ret)
{
	const char *name = cs_reg_name(code->capstone, reg);
	unsigned short place;

	if (!name || !argument_register_named(name, strlen(name), &place) || place % 8)
		return false;
	*ret = place / 8;
	return *ret < PYTHON_REGISTERS;
}

static struct python_value register_value(const struct python_state *state, x86_reg reg)
{
	unsigned int nr;

	return register_number(state->code, reg, &nr) ? state->reg[nr] : unknown_value;
}

struct python_value python_state_address(const struct python_state *state, const x86_op_mem *memory)
{
	const cs_insn *insn = state->code->insn;
	struct python_value sum = constant_value(memory->disp, false), part;

	if (memory->segment != X86_REG_INVALID)
		return unknown_value;
	if (memory->base == X86_REG_RIP)
		return constant_value(insn->address + insn->size + memory->disp, true);
	if (memory->base == X86_REG_INVALID)
		sum.is_place = state->code->is_fixed; /* a number that may be an address */
	if (memory->base != X86_REG_INVALID) {
		part = register_value(state, memory->base);
		sum = add_values(&part, &sum, 1);
	}
	if (memory->index != X86_REG_INVALID && memory->index != X86_REG_RIZ) {
		part = register_value(state, memory->index);
		sum = add_values(&sum, &part, memory->scale);
	}
	return sum;
}

static bool is_based_on(const struct python_value *address, unsigned int nr)
{
	return is_sum(address) && address->source.base == 8 * nr && address->source.index == ARGUMENT_NO_REGISTER;
}

static bool ranges_overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return b - a < a_bytes || a - b < b_bytes;
}

/* False: nothing was stored there. */
static bool find_stored(const struct python_state *state, const struct python_value *address, unsigned int bytes,
			struct python_value *ret)
{
	uint64_t at = address->source.value;

	for (uint32_t i = 0; i < state->slot_nr; i++) {
		if (!is_based_on(address, state->slot[i].base / 8) ||
		    !ranges_overlap(state->slot[i].at, state->slot[i].bytes, at, bytes))
			continue;
		*ret = state->slot[i].at == at && bytes <= state->slot[i].bytes ?
			       narrow_value(state->slot[i].value, bytes, false) : unknown_value;
		return true;
	}
	return false;
}

static struct python_value memory_value(struct python_state *state, struct python_value address, unsigned int bytes)
{
	struct python_value stored;
	uint64_t at, pointer;

	if (!is_sum(&address))
		return unknown_value;
	if (state->reads_file && bytes == 8 && python_value_is_constant(&address, &at))
		return elf_object__pointer_at(state->code->elf, at, &pointer) ? unknown_value :
										constant_value(pointer, true);
	if (state->has_stored_elsewhere && !is_based_on(&address, RSP))
		return unknown_value; /* rbp may be any pointer */
	if (find_stored(state, &address, bytes, &stored))
		return stored;
	if (state->has_stored && (state->has_stored_elsewhere || !is_based_on(&address, RBP)))
		return unknown_value;
	if (state->reads_file || (bytes != 8 && bytes != 4 && bytes != 2 && bytes != 1))
		return unknown_value;
	address.source.kind = ARGUMENT_MEMORY;
	address.source.bytes = bytes;
	return address;
}

struct python_value python_state_operand(struct python_state *state, const cs_x86_op *op)
{
	switch (op->type) {
	case X86_OP_IMM:
		return constant_value(op->imm, false);
	case X86_OP_REG:
		return narrow_value(register_value(state, op->reg), op->size, false);
	case X86_OP_MEM:
		return memory_value(state, python_state_address(state, &op->mem), op->size);
	default:
		return unknown_value;
	}
}

/* ---- instructions ---- */

void python_state_begin(struct python_state *state, struct python_code *code, bool reads_file)
{
	*state = (struct python_state){ .code = code, .reads_file = reads_file };
	for (unsigned int i = 0; i < PYTHON_REGISTERS && !reads_file; i++) {
		state->reg[i] = constant_value(0, false);
		state->reg[i].source.base = 8 * i;
	}
}

static void store_value(struct python_state *state, struct python_value address, unsigned int bytes,
			struct python_value value)
{
	bool is_on_stack = is_based_on(&address, RSP) || is_based_on(&address, RBP);
	uint32_t kept = 0;

	state->has_stored |= !is_based_on(&address, RSP);
	state->has_stored_elsewhere |= !is_on_stack;
	if (!is_on_stack)
		return;
	for (uint32_t i = 0; i < state->slot_nr; i++)
		if (!is_based_on(&address, state->slot[i].base / 8) ||
		    !ranges_overlap(state->slot[i].at, state->slot[i].bytes, address.source.value, bytes))
			state->slot[kept++] = state->slot[i];
	state->slot_nr = kept;
	if (kept == PYTHON_STACK_SLOTS) {
		state->has_stored = state->has_stored_elsewhere = true;
		return;
	}
	state->slot[kept].base = address.source.base;
	state->slot[kept].at = address.source.value;
	state->slot[kept].bytes = bytes;
	state->slot[kept].value = bytes == 8 ? value : unknown_value;
	state->slot_nr = kept + 1;
}

/* The result of an instruction that writes its first operand. */
static struct python_value result_value(struct python_state *state, const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	size_t nr = insn->detail->x86.op_count;
	struct python_value a = python_state_operand(state, &op[0]), b = unknown_value;
	uint64_t number;

	if (nr == 2)
		b = python_state_operand(state, &op[1]);
	switch (insn->id) {
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		return nr == 2 ? b : unknown_value;
	case X86_INS_MOVZX:
		return b;
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		return narrow_value(b, op[1].size, true);
	case X86_INS_LEA:
		return nr == 2 ? python_state_address(state, &op[1].mem) : unknown_value;
	case X86_INS_XOR:
		return nr == 2 && op[1].type == X86_OP_REG && op[1].reg == op[0].reg ? constant_value(0, false) : unknown_value;
	case X86_INS_ADD:
		return nr == 2 ? add_values(&a, &b, 1) : unknown_value;
	case X86_INS_SUB:
		return nr == 2 && python_value_is_constant(&b, &number) && !b.is_place ? add_to_value(&a, -number) : unknown_value;
	case X86_INS_INC:
		return add_to_value(&a, 1);
	case X86_INS_DEC:
		return add_to_value(&a, -1ull);
	case X86_INS_SHL:
		return nr == 2 && op[1].type == X86_OP_IMM ? shift_value(&a, op[1].imm) : unknown_value;
	default:
		return unknown_value;
	}
}

/* The low half of a register becomes its value by zeros; what writes less leaves the rest. */
static bool write_register(struct python_state *state, const cs_x86_op *to, struct python_value value)
{
	const char *name = cs_reg_name(state->code->capstone, to->reg);
	unsigned short place;

	if (!name || !argument_register_named(name, strlen(name), &place))
		return true; /* a vector register */
	if (place / 8 >= PYTHON_REGISTERS)
		return false;
	state->reg[place / 8] = to->size >= 4 ? narrow_value(value, to->size, false) : unknown_value;
	return true;
}

static bool push_value(struct python_state *state, const cs_x86_op *op)
{
	struct python_value value = python_state_operand(state, op);

	state->reg[RSP] = add_to_value(&state->reg[RSP], -8ull);
	store_value(state, state->reg[RSP], 8, value);
	return op->size == 8;
}

static bool pop_value(struct python_state *state, const cs_x86_op *op)
{
	struct python_value value = memory_value(state, state->reg[RSP], 8);

	state->reg[RSP] = add_to_value(&state->reg[RSP], 8);
	return op->type == X86_OP_REG && op->size == 8 && write_register(state, op, value);
}

static bool exchange_registers(struct python_state *state, const cs_x86_op *op)
{
	struct python_value a = python_state_operand(state, &op[0]), b = python_state_operand(state, &op[1]);

	return op[0].type == X86_OP_REG && op[1].type == X86_OP_REG && write_register(state, &op[0], b) &&
	       write_register(state, &op[1], a);
}

/* capstone has one name for moves of vector registers and for moves of strings. */
static bool moves_vector(const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	return (insn->id == X86_INS_MOVSD || insn->id == X86_INS_MOVSS) && insn->detail->x86.op_count == 2 &&
	       (op[0].type == X86_OP_REG || op[1].type == X86_OP_REG);
}

bool python_state_step(struct python_state *state)
{
	const cs_insn *insn = state->code->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	const cs_x86_op *to = x86->operands;

	if (insn_only_looks(insn))
		return true;
	if (insn->id == X86_INS_CDQE) {
		state->reg[RAX] = narrow_value(state->reg[RAX], 4, true);
		return true;
	}
	if (insn->id == X86_INS_PUSH)
		return push_value(state, to);
	if (insn->id == X86_INS_POP)
		return pop_value(state, to);
	if (insn->id == X86_INS_XCHG)
		return exchange_registers(state, to);
	if (moves_vector(insn)) {
		if (to->type == X86_OP_MEM)
			store_value(state, python_state_address(state, &to->mem), to->size, unknown_value);
		return true;
	}
	if (!insn_writes_first_operand(insn) || !x86->op_count || x86->prefix[0])
		return false;
	if (to->type == X86_OP_MEM) {
		store_value(state, python_state_address(state, &to->mem), to->size,
			    insn->id == X86_INS_MOV ? python_state_operand(state, &x86->operands[1]) : unknown_value);
		return true;
	}
	if (to->type != X86_OP_REG)
		return false;
	return write_register(state, to, result_value(state, insn));
}
