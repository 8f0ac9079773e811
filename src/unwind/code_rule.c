// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/code_rule.h"

enum { RSP = 4, RBP = 5 };

/* ---- registers, by number ---- */

static const x86_reg wide[CODE_REGISTERS] = {
	X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RBX, X86_REG_RSP, X86_REG_RBP, X86_REG_RSI, X86_REG_RDI,
	X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11, X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15,
};

/* NULL: not a register of 64 bits. */
static struct value *value_in_register(struct code_walk *walk, x86_reg reg)
{
	for (size_t i = 0; i < CODE_REGISTERS; i++)
		if (wide[i] == reg)
			return &walk->reg[i];
	return NULL;
}

/* The wide register of one of 32 bits; a write to that clears its upper half. */
static struct value *value_in_half(struct code_walk *walk, x86_reg reg)
{
	static const x86_reg half[] = {
		X86_REG_EAX, X86_REG_ECX, X86_REG_EDX, X86_REG_EBX, X86_REG_ESP, X86_REG_EBP, X86_REG_ESI, X86_REG_EDI,
		X86_REG_R8D, X86_REG_R9D, X86_REG_R10D, X86_REG_R11D, X86_REG_R12D, X86_REG_R13D, X86_REG_R14D,
		X86_REG_R15D,
	};

	for (size_t i = 0; i < CODE_REGISTERS; i++)
		if (half[i] == reg)
			return &walk->reg[i];
	return NULL;
}

/* ---- operands ---- */

static struct value value_in_memory(struct code_walk *walk, const x86_op_mem *mem)
{
	const struct value *base = value_in_register(walk, mem->base);

	if (!base || mem->index != X86_REG_INVALID || mem->segment != X86_REG_INVALID)
		return (struct value){ 0 };
	if (base->kind == VALUE_STACK)
		return (struct value){ .kind = VALUE_WORD, .word = base->plus + mem->disp };
	if (base == &walk->reg[RSP])
		return (struct value){ .kind = VALUE_ON_NEW, .plus = base->plus + mem->disp };
	if (base->kind == VALUE_WORD && !base->plus)
		return (struct value){ .kind = VALUE_FIELD, .word = base->word, .field = mem->disp };
	return (struct value){ 0 };
}

static struct value operand_value(struct code_walk *walk, const cs_x86_op *op)
{
	const struct value *value;

	if (op->type == X86_OP_MEM)
		return value_in_memory(walk, &op->mem);
	value = op->type == X86_OP_REG ? value_in_register(walk, op->reg) : NULL;
	return value ? *value : (struct value){ 0 };
}

/* Sets the first operand, a register. False: of another size. */
static bool set_operand(struct code_walk *walk, const cs_insn *insn, struct value result)
{
	x86_reg reg = insn->detail->x86.operands[0].reg;
	struct value *value = value_in_register(walk, reg), *half = value_in_half(walk, reg);

	if (value)
		*value = result;
	if (half)
		*half = (struct value){ 0 };
	value = value ?: half;
	if (value && value == walk->left_by)
		walk->left_by = NULL;
	return value;
}

/* ---- instructions ---- */

static void watch_store(struct code_walk *walk, const cs_x86_op *op, const struct value *value)
{
	if (op->mem.segment != X86_REG_FS && !walk->new_stack_at)
		walk->has_stored = true;
	if (walk->left_by && value_in_register(walk, op->mem.base) == walk->left_by && op->mem.disp == walk->left_field &&
	    value->kind == VALUE_ON_NEW && !value->plus)
		walk->is_nested = true;
}

/* A store before may have changed the word that is loaded. */
static void load_stack_pointer(struct code_walk *walk, const cs_insn *insn)
{
	const cs_x86_op *from = &insn->detail->x86.operands[1];
	struct value *sp = &walk->reg[RSP];

	if (walk->new_stack_at) {
		*sp = (struct value){ 0 };
		return;
	}
	walk->new_stack_at = insn->address;
	if (walk->has_stored)
		*sp = (struct value){ 0 };
	if (sp->kind || from->type != X86_OP_MEM || from->mem.index != X86_REG_INVALID ||
	    from->mem.segment != X86_REG_INVALID)
		return;
	sp->kind = VALUE_LEFT;
	walk->left_by = value_in_register(walk, from->mem.base);
	walk->left_field = from->mem.disp;
}

static bool code_mov(struct code_walk *walk, const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	struct value value = operand_value(walk, &op[1]);

	if (op[0].type == X86_OP_MEM) {
		watch_store(walk, &op[0], &value);
		return true;
	}
	if (!set_operand(walk, insn, value))
		return false;
	if (op[0].reg == X86_REG_RSP)
		load_stack_pointer(walk, insn);
	return true;
}

static bool has_sum(enum value_kind kind)
{
	return kind == VALUE_STACK || kind == VALUE_WORD || kind == VALUE_SWITCHED || kind == VALUE_LEFT;
}

static bool code_sum(struct code_walk *walk, const cs_insn *insn)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	struct value value = operand_value(walk, &op[0]), other = operand_value(walk, &op[1]);
	bool is_sub = insn->id == X86_INS_SUB;

	if (op[0].type == X86_OP_MEM)
		return false;
	if (op[1].type == X86_OP_IMM && has_sum(value.kind))
		value.plus += is_sub ? -op[1].imm : op[1].imm;
	else if (is_sub && value.kind == VALUE_FIELD && other.kind == VALUE_WORD && !other.plus)
		value = (struct value){ .kind = VALUE_SWITCHED, .word = value.word, .field = value.field,
					.depth = other.word };
	else
		value = (struct value){ 0 };
	return set_operand(walk, insn, value);
}

static bool code_pop(struct code_walk *walk, const cs_insn *insn)
{
	const x86_op_mem top = { .base = X86_REG_RSP };
	struct value value = value_in_memory(walk, &top);

	walk->reg[RSP].plus += 8;
	return insn->detail->x86.operands[0].type == X86_OP_REG && set_operand(walk, insn, value);
}

static bool code_lea(struct code_walk *walk, const cs_insn *insn)
{
	return insn->detail->x86.operands[0].reg != X86_REG_RSP && set_operand(walk, insn, (struct value){ 0 });
}

bool code_walk_step(struct code_walk *walk, const cs_insn *insn)
{
	switch (insn->id) {
	case X86_INS_MOV:
		return code_mov(walk, insn);
	case X86_INS_ADD:
	case X86_INS_SUB:
		return code_sum(walk, insn);
	case X86_INS_POP:
		return code_pop(walk, insn);
	case X86_INS_LEA:
		return code_lea(walk, insn);
	case X86_INS_CMP:
	case X86_INS_NOP:
		return true;
	case X86_INS_RET:
		walk->has_returned = !insn->detail->x86.op_count;
		return walk->has_returned;
	}
	return false;
}

void code_walk_begin(struct code_walk *walk)
{
	*walk = (struct code_walk){
		.reg[RSP] = { .kind = VALUE_STACK },
		.reg[RBP] = { .kind = VALUE_CALLERS_FP }, /* a function that was called has restored it */
	};
}

/* ---- the rule ---- */

static bool fits_byte(int64_t offset)
{
	return offset >= 0 && offset <= UNWIND_ADDEND_MAX;
}

static struct unwind_rule rule_of_cfa(const struct value *sp, bool is_nested)
{
	int64_t above = sp->plus + 8; /* the return has popped a word */

	if (sp->kind == VALUE_STACK && above > 0 && above <= UNWIND_OFFSET_MAX)
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = above };
	if (sp->kind == VALUE_WORD && fits_byte(sp->word) && fits_byte(above))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = sp->word, .addend = above };
	if (sp->kind == VALUE_SWITCHED && fits_byte(sp->word) && fits_byte(sp->field) && fits_byte(sp->depth) &&
	    fits_byte(2 * above))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SWITCH, .addend = sp->depth,
					     .cfa_off = UNWIND_SWITCH(sp->word, sp->field, above) };
	if (sp->kind == VALUE_LEFT && is_nested && fits_byte(above))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = above };
	return (struct unwind_rule){ 0 };
}

struct unwind_rule code_walk_rule(const struct code_walk *walk)
{
	const struct value *sp = &walk->reg[RSP], *fp = &walk->reg[RBP];
	struct unwind_rule rule = rule_of_cfa(sp, walk->is_nested);

	if (!rule.cfa_kind || fp->kind == VALUE_CALLERS_FP)
		return rule;
	rule.fp_kind = UNWIND_FP_LOST;
	if (fp->kind == VALUE_ON_NEW || (fp->kind == VALUE_WORD && !fp->plus && sp->kind == VALUE_STACK)) {
		rule.fp_kind = UNWIND_FP_AT_CFA;
		rule.fp_off = (fp->kind == VALUE_WORD ? fp->word : fp->plus) - (sp->plus + 8);
	}
	return rule;
}
