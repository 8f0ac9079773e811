// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_rules.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "unwind/code_rule.h"

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

static void sort_stack_rules(struct stack_rules *rules)
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
	sort_stack_rules(ret);
	return err;
}
