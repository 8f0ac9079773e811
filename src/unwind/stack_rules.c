// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_rules.h"

#include <capstone/capstone.h>
#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "shared/unwind_types.h"

/*
 * The rule at a return address, read from the code itself: the instructions from there to the return say where the
 * caller's stack pointer comes from. They are followed by what they do, not compared with known ones.
 */

/* The value of a register, in terms of the stack and the registers at the return address. */
enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_CALLERS_FP, /* the frame pointer, unchanged */
	VALUE_STACK,	  /* sp + plus */
	VALUE_WORD,	  /* *(sp + word) + plus */
	VALUE_FIELD,	  /* *(*(sp + word) + field) */
	VALUE_SWITCHED,	  /* *(*(sp + word) + field) - *(sp + depth) + plus */
	VALUE_LEFT,	  /* sp of the stack that a switch has left, + plus */
	VALUE_ON_NEW,	  /* the word at plus on a stack that the code has changed to */
};

struct value {
	enum value_kind kind;
	int64_t word, field, depth, plus;
};

#define CODE_REGISTERS 16

struct code_walk {
	struct value reg[CODE_REGISTERS];
	uint64_t new_stack_at; /* address of the first instruction that loads the stack pointer; 0: none yet */
	bool has_returned;
	bool has_stored; /* before that; thread-local memory does not count */

	/* The stack pointer came from a field of what this register points to, and its first word has gone there. */
	const struct value *left_by;
	int64_t left_field;
	bool is_nested;
};

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

/* Follows an instruction. False: control may go elsewhere, or what it does is not known. */
static bool code_walk_step(struct code_walk *walk, const cs_insn *insn)
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

static void code_walk_begin(struct code_walk *walk)
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

/*
 * The rule after has_returned; UNWIND_CFA_NONE if the stack pointer is not known. A switch of stacks begins at a place
 * that a field says. If code takes its stack pointer from such a field and puts the word there into the field again, the
 * rule is UNWIND_CFA_LEFT, and cfa_off counts from that place.
 */
static struct unwind_rule code_walk_rule(const struct code_walk *walk)
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

/* Bytes between a call and the instruction that loads the stack pointer. Go 1.19 to 1.27 have up to 64. */
#define NEAR_BYTES 128
#define SCAN_BYTES_MAX (256u << 20)
/*
 * Instructions of a segment that load the stack pointer, or look so: programs of 50 MiB have 30. C code loads it, too,
 * around arrays and aligned locals, but .eh_frame describes this code.
 */
#define LOADS_MAX 256

/* Where a switch with a rule begins on the new stack: *(… + field) - below, rounded down to 16. */
struct begin_place {
	int64_t field, below;
	unsigned int nr; /* how many there are */
};

/* Where Go code that C code called returns to it; the rule has no distance yet. */
struct callback_place {
	size_t return_at;
	int64_t field;
	struct unwind_rule rule;
	unsigned int nr;
};

struct scan {
	csh capstone;
	cs_insn *insn;
	const uint8_t *code;
	size_t bytes;
	uint64_t vaddr; /* of code */
	const struct entries *entries;
	struct stack_rules *found;
	struct begin_place begin;
	struct callback_place callback;
};

/* Not in C code, which .eh_frame describes. */
static int add_stack_rule(struct scan *scan, size_t return_at, struct unwind_rule rule)
{
	const struct stack_rule found = { .address = scan->vaddr + return_at - 1, .rule = rule };

	return entries_are_sure(scan->entries, found.address) ? 0 : array_push(scan->found, rule, found);
}

/* Decodes the instruction at *at, and moves there. */
static bool next_insn(struct scan *scan, size_t *at)
{
	const uint8_t *byte = scan->code + *at;
	uint64_t address = scan->vaddr + *at;
	size_t left = scan->bytes - *at;

	if (!left || !cs_disasm_iter(scan->capstone, &byte, &left, &address, scan->insn))
		return false;
	*at = byte - scan->code;
	return true;
}

/* mov %reg,%rsp and mov …,%rsp */
static bool is_stack_load(const uint8_t *code)
{
	if (code[1] == 0x89)
		return (code[0] & 0xfb) == 0x48 && (code[2] & 0xc7) == 0xc4;
	return code[1] == 0x8b && (code[0] & 0xfe) == 0x48 && (code[2] & 0x38) == 0x20;
}

/* Whether a call may end there: call …, call *%reg. */
static bool is_behind_call(const struct scan *scan, size_t at)
{
	const uint8_t *code = scan->code + at;

	return (at >= 5 && code[-5] == 0xe8) || (at >= 2 && code[-2] == 0xff && (code[-1] & 0xf8) == 0xd0);
}

static bool is_in_insn_group(const cs_insn *insn, unsigned int group)
{
	for (size_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == group)
			return true;
	return false;
}

/*
 * Where code goes on if the current instruction, which ends at `at`, is a conditional jump; 0: nowhere. Once the callback
 * is on C's stack again, both ways return from there.
 */
static size_t next_place(const struct scan *scan, const struct code_walk *walk, size_t at)
{
	const cs_x86_op *op = scan->insn->detail->x86.operands;

	if (!is_in_insn_group(scan->insn, X86_GRP_JUMP) || scan->insn->id == X86_INS_JMP || !walk->is_nested ||
	    op[0].type != X86_OP_IMM || (uint64_t)op[0].imm - scan->vaddr >= scan->bytes)
		return 0;
	return (uint64_t)op[0].imm - scan->vaddr > at ? op[0].imm - scan->vaddr : 0;
}

/* Follows the code from a return address to the function's return. */
static struct unwind_rule rule_from(struct scan *scan, size_t from, struct code_walk *walk)
{
	size_t at = from;

	code_walk_begin(walk);
	while (at && at < from + 2 * NEAR_BYTES && !walk->has_returned && next_insn(scan, &at))
		if (!code_walk_step(walk, scan->insn))
			at = next_place(scan, walk, at);
	return walk->has_returned ? code_walk_rule(walk) : (struct unwind_rule){ 0 };
}

static int add_rule_before(struct scan *scan, size_t return_at, const struct code_walk *walk, struct unwind_rule rule)
{
	if (rule.cfa_kind != UNWIND_CFA_LEFT)
		return add_stack_rule(scan, return_at, rule);
	scan->callback = (struct callback_place){
		.return_at = return_at, .field = walk->left_field, .rule = rule, .nr = scan->callback.nr + 1,
	};
	return 0;
}

/*
 * The calls before an instruction that loads the stack pointer. A place that only looks like one does no harm: no call
 * returns there.
 */
static int rules_before(struct scan *scan, size_t load)
{
	struct unwind_rule rule;
	struct code_walk walk;
	int err = 0;

	for (size_t at = load > NEAR_BYTES ? load - NEAR_BYTES : 0; !err && at <= load; at++) {
		if (!is_behind_call(scan, at))
			continue;
		rule = rule_from(scan, at, &walk);
		if (walk.new_stack_at == scan->vaddr + load)
			err = add_rule_before(scan, at, &walk, rule);
	}
	return err;
}

/* mov field(…),%rsp; sub $below,%rsp; and $-16,%rsp */
static void note_begin(struct begin_place *begin, const cs_insn *insn, bool *is_aligned)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	if (insn->detail->x86.op_count != 2 || op[0].type != X86_OP_REG || op[0].reg != X86_REG_RSP)
		return;
	if (op[1].type == X86_OP_MEM)
		begin->field = op[1].mem.disp;
	else if (insn->id == X86_INS_SUB)
		begin->below += op[1].imm;
	*is_aligned = insn->id == X86_INS_AND && op[1].type == X86_OP_IMM && op[1].imm == -16;
}

/* The first call behind the instruction: unless a rule is found, nothing on the new stack says where the old one is. */
static int no_rule_behind(struct scan *scan, size_t load)
{
	struct begin_place begin = { .nr = scan->begin.nr + 1 };
	struct code_walk walk;
	bool is_aligned = false;
	size_t at = load;

	while (at < load + NEAR_BYTES && next_insn(scan, &at)) {
		if (is_in_insn_group(scan->insn, X86_GRP_CALL)) {
			if (is_aligned && rule_from(scan, at, &walk).cfa_kind == UNWIND_CFA_SWITCH)
				scan->begin = begin;
			return add_stack_rule(scan, at, (struct unwind_rule){ 0 });
		}
		if (is_in_insn_group(scan->insn, X86_GRP_JUMP) || is_in_insn_group(scan->insn, X86_GRP_RET))
			break;
		note_begin(&begin, scan->insn, &is_aligned);
	}
	return 0;
}

/* ---- Go code that C code calls ---- */

/* crosscall2, at its call of the function that the callback returns from. */
static bool is_caller_of(const struct scan *scan, size_t at, size_t callback)
{
	int32_t distance;
	uint64_t target;

	if (scan->code[at] != 0xe8 || at + 5 > scan->bytes)
		return false;
	memcpy(&distance, scan->code + at + 1, sizeof(distance));
	target = at + 5 + (int64_t)distance;
	return target < callback && callback - target < 4 * NEAR_BYTES && !((scan->vaddr + target) % 16);
}

/*
 * The callback's frame on C's stack lies right above the switch that went on from there, which rounded its stack pointer
 * down. C code calls functions with a stack pointer that is a multiple of 16, so the size of the caller's frame says by
 * how much.
 */
static int add_callback(struct scan *scan)
{
	struct callback_place *callback = &scan->callback;
	int64_t above = callback->rule.cfa_off, rounded;
	struct unwind_rule caller;
	struct code_walk walk;
	int err = 0;

	if (callback->nr != 1 || scan->begin.nr != 1 || callback->field != scan->begin.field)
		return 0;
	for (size_t i = 0; !err && i + 5 <= scan->bytes; i++) {
		if (!is_caller_of(scan, i, callback->return_at))
			continue;
		caller = rule_from(scan, i + 5, &walk);
		if (caller.cfa_kind != UNWIND_CFA_SP || caller.fp_kind != UNWIND_FP_AT_CFA)
			continue;
		rounded = -(caller.cfa_off + above + scan->begin.below) & 15;
		callback->rule.cfa_off = scan->begin.below + rounded + above;
		err = add_stack_rule(scan, i + 5, caller) ?:
		      add_stack_rule(scan, callback->return_at, callback->rule);
	}
	return err;
}

/* ---- the file ---- */

/* goexit: nop, call …, nop, between functions. The goroutine's first function returns behind the first nop. */
static bool is_goexit(const uint8_t *code)
{
	return code[0] == 0x90 && code[1] == 0xe8 && code[6] == 0x90 && code[7] == 0xcc;
}

static int scan_code(struct scan *scan)
{
	const struct unwind_rule root = { .cfa_kind = UNWIND_CFA_ROOT };
	unsigned int loads = 0;
	int err = 0;

	for (size_t i = 0; !err && i + 8 <= scan->bytes; i++) {
		const uint8_t *code = scan->code + i;

		if (is_stack_load(code) && !entries_are_sure(scan->entries, scan->vaddr + i) && loads++ < LOADS_MAX)
			err = rules_before(scan, i) ?: no_rule_behind(scan, i);
		else if (!((scan->vaddr + i) % 16) && is_goexit(code))
			err = add_stack_rule(scan, i + 1, root);
	}
	scan->found->is_partial |= loads > LOADS_MAX;
	return err ?: add_callback(scan);
}

static int scan_segment(struct scan *scan, Elf *elf, const struct unwind_segment *segment)
{
	uint64_t bytes = segment->end - segment->offset;
	Elf_Data *data;

	data = bytes > SCAN_BYTES_MAX ? NULL : elf_getdata_rawchunk(elf, segment->offset, bytes, ELF_T_BYTE);
	if (!data || !data->d_buf) {
		scan->found->is_partial = true;
		return 0;
	}
	scan->code = data->d_buf;
	scan->bytes = data->d_size;
	scan->vaddr = segment->offset + segment->delta;
	scan->begin.nr = scan->callback.nr = 0;
	return scan_code(scan);
}

/* At one address a rule comes before none. */
static int compare_stack_rules(const void *left, const void *right)
{
	const struct stack_rule *a = left, *b = right;

	if (a->address != b->address)
		return a->address > b->address ? 1 : -1;
	return !a->rule.cfa_kind - !b->rule.cfa_kind;
}

void stack_rules_sort(struct stack_rules *rules)
{
	size_t kept = 0;

	if (rules->rule_nr)
		qsort(rules->rule, rules->rule_nr, sizeof(*rules->rule), compare_stack_rules);
	for (size_t i = 0; i < rules->rule_nr; i++)
		if (!kept || rules->rule[kept - 1].address != rules->rule[i].address)
			rules->rule[kept++] = rules->rule[i];
	rules->rule_nr = kept;
}

int stack_rules_find(Elf *elf, const struct object_cfi *cfi, const struct entries *entries, struct stack_rules *ret)
{
	struct scan scan = { .found = ret, .entries = entries };
	int err = 0;

	*ret = (struct stack_rules){ 0 };
	if (!cfi->has_go)
		return 0;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &scan.capstone))
		return -ENOMEM;
	cs_option(scan.capstone, CS_OPT_DETAIL, CS_OPT_ON);
	scan.insn = cs_malloc(scan.capstone);
	if (!scan.insn)
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < cfi->segment_nr; i++)
		err = scan_segment(&scan, elf, &cfi->segment[i]);
	if (scan.insn)
		cs_free(scan.insn, 1);
	cs_close(&scan.capstone);
	stack_rules_sort(ret);
	return err;
}
