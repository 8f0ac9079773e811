// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_rules.h"

#include <errno.h>
#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "shared/unwind_types.h"
#include "unwind/cfi_machine.h"
#include "unwind/stack_code.h"

/*
 * The rule at a return address, read from the code itself: the instructions from there to the return say where the
 * caller's stack pointer comes from. They are followed by what they do (stack_code.h), not compared with known ones.
 */

/* The value of a register, in terms of the stack and the registers at the return address. */
enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_CALLERS_FP, /* the frame pointer, unchanged */
	VALUE_STACK,	  /* sp + plus */
	VALUE_WORD,	  /* *(sp + word) + plus */
	VALUE_FIELD,	  /* *(*(sp + word) + field) */
	VALUE_SWITCHED,	  /* *(*(sp + word) + field) - *(sp + depth) + plus */
	VALUE_OF,	  /* *(reg + field) + plus: sp has it of the stack that a switch has left. NO_REGISTER: reg has changed */
	VALUE_ON_NEW,	  /* the word at plus on a stack that the code has changed to */
};

struct value {
	enum value_kind kind;
	unsigned int reg;
	int64_t word, field, depth, plus;
};

struct code_walk {
	const struct cfi_machine *machine;
	struct value reg[CODE_REGISTERS];
	struct value *sp;
	size_t new_stack_at; /* the first instruction that loads the stack pointer; 0: none yet */
	bool has_returned;
	bool has_stored; /* before that; thread-local memory does not count */
	bool is_nested;	 /* the word that the stack pointer came from has got another one of the new stack */
	bool is_rounded; /* the last change of the stack pointer has rounded it down */
};

static void code_walk_begin(struct code_walk *walk, const struct cfi_machine *machine)
{
	*walk = (struct code_walk){ .machine = machine, .sp = &walk->reg[machine->sp] };
	walk->sp->kind = VALUE_STACK;
	walk->reg[machine->fp].kind = VALUE_CALLERS_FP; /* a function that was called has restored it */
}

/* ---- instructions ---- */

static void set_register(struct code_walk *walk, unsigned int reg, struct value value)
{
	walk->reg[reg] = value;
	for (size_t i = 0; i < CODE_REGISTERS; i++)
		if (walk->reg[i].kind == VALUE_OF && walk->reg[i].reg == reg)
			walk->reg[i].reg = NO_REGISTER;
	if (&walk->reg[reg] == walk->sp)
		walk->is_rounded = false;
}

static struct value value_in_memory(const struct code_walk *walk, unsigned int base, int64_t offset)
{
	const struct value *from = &walk->reg[base];

	if (from->kind == VALUE_STACK)
		return (struct value){ .kind = VALUE_WORD, .word = from->plus + offset };
	if (from == walk->sp)
		return (struct value){ .kind = VALUE_ON_NEW, .plus = from->plus + offset };
	if (from->kind == VALUE_WORD && !from->plus)
		return (struct value){ .kind = VALUE_FIELD, .word = from->word, .field = offset };
	return (struct value){ .kind = VALUE_OF, .reg = base, .field = offset };
}

static struct value source_value(const struct code_walk *walk, const struct code_effect *effect)
{
	if (effect->base != NO_REGISTER)
		return value_in_memory(walk, effect->base, effect->offset);
	return effect->from != NO_REGISTER ? walk->reg[effect->from] : (struct value){ 0 };
}

/* A store before may have changed the word that is loaded. False: it is not the first load. */
static bool load_stack_pointer(struct code_walk *walk, size_t at, struct value value)
{
	bool is_first = !walk->new_stack_at;

	if (is_first)
		walk->new_stack_at = at;
	if (!is_first || (walk->has_stored && value.kind != VALUE_OF))
		value = (struct value){ 0 };
	set_register(walk, walk->machine->sp, value);
	return is_first;
}

static bool code_set(struct code_walk *walk, const struct code_effect *effect, size_t at)
{
	struct value value = source_value(walk, effect), second = { 0 };

	if (effect->base == NO_REGISTER && effect->to == walk->machine->sp && value.kind == VALUE_OF)
		value = (struct value){ 0 }; /* a store since then may have changed the field */
	if (effect->to == walk->machine->sp)
		return load_stack_pointer(walk, at, value);
	if (effect->second != NO_REGISTER)
		second = value_in_memory(walk, effect->base, effect->offset + 8);
	walk->sp->plus += effect->popped;
	walk->is_rounded &= !effect->popped;
	set_register(walk, effect->to, value);
	if (effect->second != NO_REGISTER)
		set_register(walk, effect->second, second);
	return true;
}

static bool has_sum(enum value_kind kind)
{
	return kind == VALUE_STACK || kind == VALUE_WORD || kind == VALUE_SWITCHED || kind == VALUE_OF;
}

/* The stack pointer may be set to another place on the same stack by way of a register. */
static bool code_add(struct code_walk *walk, const struct code_effect *effect, size_t at)
{
	struct value value = walk->reg[effect->left], moved = value;
	bool is_same_stack;

	moved.plus = walk->sp->plus;
	is_same_stack = effect->left == walk->machine->sp || !memcmp(&moved, walk->sp, sizeof(moved));
	if (has_sum(value.kind))
		value.plus += effect->offset;
	else if (effect->offset)
		value = (struct value){ 0 };
	if (effect->to == walk->machine->sp && !is_same_stack)
		return load_stack_pointer(walk, at, value);
	set_register(walk, effect->to, value);
	return true;
}

static void code_subtract(struct code_walk *walk, const struct code_effect *effect)
{
	struct value end = walk->reg[effect->left], depth = source_value(walk, effect), value = { 0 };

	if (end.kind == VALUE_FIELD && depth.kind == VALUE_WORD && !depth.plus)
		value = (struct value){ .kind = VALUE_SWITCHED, .word = end.word, .field = end.field, .depth = depth.word };
	set_register(walk, effect->to, value);
}

/* Where calls push the return address, the word that goes back lies at the top of the new stack. */
static void code_store(struct code_walk *walk, const struct code_effect *effect)
{
	const struct value *sp = walk->sp, *value;

	walk->has_stored |= !walk->new_stack_at;
	if (sp->kind != VALUE_OF || effect->base != sp->reg || effect->offset != sp->field ||
	    effect->base == NO_REGISTER || effect->from == NO_REGISTER)
		return;
	value = &walk->reg[effect->from];
	walk->is_nested |= value->kind == VALUE_ON_NEW && (walk->machine->has_link || !value->plus);
}

static void code_call_of_go(struct code_walk *walk, unsigned int kept)
{
	for (unsigned int i = 0; i < CODE_REGISTERS; i++)
		if (i != kept && i != walk->machine->sp)
			set_register(walk, i, (struct value){ 0 });
}

/* Follows an instruction. False: control may go elsewhere, or what it does is not known. */
static bool code_walk_step(struct code_walk *walk, const struct code_effect *effect, size_t at)
{
	switch (effect->kind) {
	case EFFECT_SET:
		return code_set(walk, effect, at);
	case EFFECT_ADD:
		return code_add(walk, effect, at);
	case EFFECT_SUBTRACT:
		code_subtract(walk, effect);
		return true;
	case EFFECT_STORE:
		code_store(walk, effect);
		return true;
	case EFFECT_CALL_OF_GO:
		code_call_of_go(walk, effect->from);
		return true;
	case EFFECT_RETURN:
		walk->sp->plus += effect->popped;
		walk->has_returned = true;
		return true;
	case EFFECT_UNKNOWN:
	case EFFECT_CLEAR:
		if (effect->to != NO_REGISTER)
			set_register(walk, effect->to, (struct value){ 0 });
		return effect->kind == EFFECT_CLEAR;
	case EFFECT_ROUND:
		walk->is_rounded = true;
		return false;
	default:
		return effect->kind == EFFECT_NONE;
	}
}

/* ---- the rule ---- */

static bool fits_byte(int64_t offset)
{
	return offset >= 0 && offset <= UNWIND_ADDEND_MAX;
}

static struct unwind_rule rule_of_cfa(const struct value *sp, bool is_nested)
{
	if (sp->kind == VALUE_STACK && sp->plus > 0 && sp->plus <= UNWIND_OFFSET_MAX)
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = sp->plus };
	if (sp->kind == VALUE_WORD && fits_byte(sp->word) && fits_byte(sp->plus))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = sp->word, .addend = sp->plus };
	if (sp->kind == VALUE_SWITCHED && fits_byte(sp->word) && fits_byte(sp->field) && fits_byte(sp->depth) &&
	    fits_byte(2 * sp->plus))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SWITCH, .addend = sp->depth,
					     .cfa_off = UNWIND_SWITCH(sp->word, sp->field, sp->plus) };
	if (sp->kind == VALUE_OF && is_nested && fits_byte(sp->plus))
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = sp->plus };
	return (struct unwind_rule){ 0 };
}

/* Whether a register was loaded from the caller's stack, and from where, as the stack pointer counts. */
static bool is_saved(const struct code_walk *walk, unsigned int reg, int64_t *ret_at)
{
	const struct value *value = &walk->reg[reg];

	if (walk->sp->kind != VALUE_STACK) {
		*ret_at = value->plus;
		return value->kind == VALUE_ON_NEW;
	}
	*ret_at = value->word;
	return value->kind == VALUE_WORD && !value->plus;
}

/*
 * UNWIND_CFA_NONE if the way to the caller is not known. A switch of stacks begins at a place that a field says. If code
 * takes its stack pointer from such a field and puts a word there into the field again, the rule is UNWIND_CFA_LEFT, and
 * cfa_off counts from that place.
 */
static struct unwind_rule code_walk_rule(const struct code_walk *walk)
{
	const struct cfi_machine *machine = walk->machine;
	struct unwind_rule rule = rule_of_cfa(walk->sp, walk->is_nested);
	int64_t fp_at, return_at;
	bool has_fp = is_saved(walk, machine->fp, &fp_at);

	if (!walk->has_returned || !rule.cfa_kind)
		return (struct unwind_rule){ 0 };
	if (machine->has_link) {
		if (!has_fp || !is_saved(walk, machine->return_address, &return_at) || return_at != fp_at + 8)
			return (struct unwind_rule){ 0 };
		rule.return_kind = UNWIND_RETURN_ABOVE_FP;
	}
	if (walk->reg[machine->fp].kind == VALUE_CALLERS_FP)
		return rule;
	rule.fp_kind = has_fp ? UNWIND_FP_AT_CFA : UNWIND_FP_LOST;
	if (has_fp)
		rule.fp_off = fp_at - walk->sp->plus;
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
	const struct cfi_machine *machine;
	const struct code_reader *reader;
	struct code code;
	const struct entries *entries;
	struct stack_rules *found;
	struct begin_place begin;
	struct callback_place callback;
};

/* Not in C code, which .eh_frame describes. */
static int add_stack_rule(struct scan *scan, size_t return_at, struct unwind_rule rule)
{
	const struct stack_rule found = { .address = scan->code.vaddr + return_at - 1, .rule = rule };

	return entries_are_sure(scan->entries, found.address) ? 0 : array_push(scan->found, rule, found);
}

/*
 * Where code goes on if an instruction cannot be followed; 0: nowhere. Once the callback is on C's stack again, both ways
 * of a branch return from there.
 */
static size_t next_place(const struct scan *scan, const struct code_walk *walk, const struct code_effect *effect)
{
	bool is_ahead = effect->target > effect->end && effect->target < scan->code.size;

	return effect->kind == EFFECT_BRANCH && walk->is_nested && is_ahead ? effect->target : 0;
}

/* Follows the code from a return address to the function's return. */
static struct unwind_rule rule_from(const struct scan *scan, size_t from, struct code_walk *walk)
{
	struct code_effect effect;
	size_t at = from;

	code_walk_begin(walk, scan->machine);
	while (at && at < from + 2 * NEAR_BYTES && !walk->has_returned && scan->reader->read(&scan->code, at, &effect))
		at = code_walk_step(walk, &effect, at) ? effect.end : next_place(scan, walk, &effect);
	return code_walk_rule(walk);
}

static int add_rule_before(struct scan *scan, size_t return_at, const struct code_walk *walk, struct unwind_rule rule)
{
	if (rule.cfa_kind != UNWIND_CFA_LEFT)
		return add_stack_rule(scan, return_at, rule);
	scan->callback = (struct callback_place){
		.return_at = return_at, .field = walk->sp->field, .rule = rule, .nr = scan->callback.nr + 1,
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

	for (size_t at = load > NEAR_BYTES ? load - NEAR_BYTES : 0; !err && at <= load; at += scan->reader->step) {
		enum code_effect_kind call = scan->reader->call_before(&scan->code, at);

		if (call == EFFECT_NONE)
			continue;
		rule = rule_from(scan, at, &walk);
		if (walk.new_stack_at == load)
			err = add_rule_before(scan, at, &walk, call == EFFECT_CALL ? rule : (struct unwind_rule){ 0 });
	}
	return err;
}

/* mov field(…),sp; sub $below,sp; and $-16,sp. One that comes from elsewhere counts as two: no callback lies at it. */
static void note_begin(struct scan *scan, const struct code_walk *walk, size_t return_at)
{
	bool is_known = walk->sp->kind == VALUE_OF && walk->sp->plus <= 0;
	struct code_walk back;

	if (!walk->is_rounded && !(is_known && scan->reader->has_round_sp))
		return;
	if (rule_from(scan, return_at, &back).cfa_kind != UNWIND_CFA_SWITCH)
		return;
	scan->begin.field = walk->sp->field;
	scan->begin.below = -walk->sp->plus;
	scan->begin.nr += is_known ? 1 : 2;
}

/* The first call behind the instruction: unless a rule is found, nothing on the new stack says where the old one is. */
static int no_rule_behind(struct scan *scan, size_t load)
{
	size_t before = scan->reader->before_load, at = load >= before ? load - before : load;
	struct code_effect effect;
	struct code_walk walk;

	code_walk_begin(&walk, scan->machine);
	for (; at <= load + NEAR_BYTES && scan->reader->read(&scan->code, at, &effect); at = effect.end) {
		switch (effect.kind) {
		case EFFECT_CALL:
		case EFFECT_CALL_OF_GO:
			note_begin(scan, &walk, effect.end);
			return add_stack_rule(scan, effect.end, (struct unwind_rule){ 0 });
		case EFFECT_BRANCH:
		case EFFECT_JUMP:
		case EFFECT_RETURN:
			return 0;
		default:
			code_walk_step(&walk, &effect, at);
		}
	}
	return 0;
}

/* ---- Go code that C code calls ---- */

/* crosscall2, at its call of the function that the callback returns from. */
static bool is_caller_of(const struct scan *scan, size_t at, size_t callback, size_t *ret_end)
{
	size_t target = scan->reader->call_target(&scan->code, at, ret_end);

	return target < callback && callback - target < 4 * NEAR_BYTES && !((scan->code.vaddr + target) % 16);
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
	size_t return_at;
	int err = 0;

	if (callback->nr != 1 || scan->begin.nr != 1 || callback->field != scan->begin.field)
		return 0;
	for (size_t i = 0; !err && i + MARK_BYTES <= scan->code.size; i += scan->reader->step) {
		if (!is_caller_of(scan, i, callback->return_at, &return_at))
			continue;
		caller = rule_from(scan, return_at, &walk);
		if (caller.cfa_kind != UNWIND_CFA_SP || caller.fp_kind != UNWIND_FP_AT_CFA)
			continue;
		rounded = scan->reader->has_round_sp ? 0 : -(caller.cfa_off + above + scan->begin.below) & 15;
		callback->rule.cfa_off = scan->begin.below + rounded + above;
		err = add_stack_rule(scan, return_at, caller) ?:
		      add_stack_rule(scan, callback->return_at, callback->rule);
	}
	return err;
}

/* ---- the file ---- */

/* The goroutine's first function returns behind the first instruction of goexit. */
static int scan_code(struct scan *scan)
{
	const struct unwind_rule root = { .cfa_kind = UNWIND_CFA_ROOT };
	const struct code *code = &scan->code;
	unsigned int loads = 0;
	int err = 0;

	for (size_t i = 0; !err && i + MARK_BYTES <= code->size; i += scan->reader->step) {
		enum code_mark mark = scan->reader->mark(code->byte + i);

		if (mark == MARK_LOAD && !entries_are_sure(scan->entries, code->vaddr + i) && loads++ < LOADS_MAX)
			err = rules_before(scan, i) ?: no_rule_behind(scan, i);
		else if (mark == MARK_GOEXIT && !((code->vaddr + i) % 16))
			err = add_stack_rule(scan, i + scan->reader->step, root);
	}
	scan->found->is_partial |= loads > LOADS_MAX;
	return err ?: add_callback(scan);
}

static int scan_segment(struct scan *scan, Elf *elf, const struct unwind_segment *segment, bool has_go)
{
	uint64_t bytes = segment->end - segment->offset;
	Elf_Data *data;
	int err = 0;

	data = bytes > SCAN_BYTES_MAX ? NULL : elf_getdata_rawchunk(elf, segment->offset, bytes, ELF_T_BYTE);
	if (!data || !data->d_buf) {
		scan->found->is_partial |= has_go;
		return 0;
	}
	scan->code.byte = data->d_buf;
	scan->code.size = data->d_size;
	scan->code.vaddr = segment->offset + segment->delta;
	scan->begin.nr = scan->callback.nr = 0;
	if (scan->reader->find_signals)
		err = scan->reader->find_signals(&scan->code, scan->entries, scan->found);
	return err || !has_go ? err : scan_code(scan);
}

/* At one address a rule comes before none. */
static int compare_stack_rules(const void *left, const void *right)
{
	const struct stack_rule *a = left, *b = right;

	if (a->address != b->address)
		return a->address > b->address ? 1 : -1;
	return !a->rule.cfa_kind - !b->rule.cfa_kind;
}

static void stack_rules_sort(struct stack_rules *rules)
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
	const struct code_reader *reader = cfi->machine->reader;
	struct scan scan = { .machine = cfi->machine, .reader = reader, .found = ret, .entries = entries };
	int err;

	*ret = (struct stack_rules){ 0 };
	if (!cfi->has_go && !reader->find_signals)
		return 0;
	err = reader->open ? reader->open(&scan.code) : 0;
	if (err)
		return err;
	for (uint32_t i = 0; !err && i < cfi->segment_nr; i++)
		err = scan_segment(&scan, elf, &cfi->segment[i], cfi->has_go);
	if (reader->close)
		reader->close(&scan.code);
	stack_rules_sort(ret);
	return err;
}
