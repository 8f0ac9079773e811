// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_rules.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/array.h"

/*
 * stack_rules.c for arm64's code: the instructions from a return address to the return say where the caller's stack pointer
 * comes from. sp is loaded from a register only (add sp, xN, #0), and the code that Go's calls return to restores x29 and x30
 * as a pair.
 */

enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_STACK,	/* sp + plus, at the return address */
	VALUE_WORD,	/* *(sp + word) + plus */
	VALUE_FIELD,	/* *(*(sp + word) + field) */
	VALUE_SWITCHED, /* *(*(sp + word) + field) - *(sp + depth) + plus */
	VALUE_OF,	/* *(reg + field) + plus: what the code puts into sp of a stack that a switch has left */
	VALUE_ON_NEW,	/* the word at plus on a stack that the code has changed to */
};

struct value {
	enum value_kind kind;
	unsigned int reg;
	int64_t word, field, depth, plus;
};

enum { REG_G = 28, REG_FP = 29, REG_LINK = 30, REG_SP = 31 };

struct walk {
	struct value reg[32];
	size_t new_stack_at; /* the instruction that loads sp; 0: none yet */
	bool has_stored, has_returned;
	bool is_nested; /* the word that sp came from has got another one of the new stack */
};

struct scan_go {
	const uint8_t *code;
	size_t bytes;
	uint64_t vaddr;
	const struct entries *entries;
	struct stack_rules *found;
	int64_t begin_field, begin_below; /* where the one switch with a rule begins on the new stack: *(… + field) - below */
	unsigned int begin_nr;
	size_t callback; /* where Go code that C code called returns to */
	struct unwind_rule callback_rule;
	int64_t callback_field;
	unsigned int callback_nr;
};

static uint32_t insn_at(const struct scan_go *scan, size_t at)
{
	uint32_t word;

	memcpy(&word, scan->code + at, sizeof(word));
	return word;
}

/* ---- instructions (DDI 0487, C4.1) ---- */

static bool is_load_of_sp(uint32_t insn)
{
	return (insn & 0xfffffc1f) == 0x9100001f && (insn >> 5 & 31) != REG_SP;
}

static bool is_blr(uint32_t insn)
{
	return (insn & 0xfffffc1f) == 0xd63f0000;
}

static bool is_call(uint32_t insn)
{
	return (insn & 0xfc000000) == 0x94000000 || is_blr(insn);
}

/* Control goes elsewhere, or may. */
static bool is_jump(uint32_t insn)
{
	return (insn & 0xfc000000) == 0x14000000 || (insn & 0xfe000000) == 0x54000000 || (insn & 0x7c000000) == 0x34000000 ||
	       (insn & 0xff9ffc1f) == 0xd61f0000;
}

static void set_register(struct walk *walk, unsigned int reg, struct value value)
{
	for (unsigned int i = 0; i < REG_SP; i++)
		if (walk->reg[i].kind == VALUE_OF && walk->reg[i].reg == reg)
			walk->reg[i].kind = VALUE_UNKNOWN;
	walk->reg[reg] = value;
}

static struct value loaded(const struct walk *walk, unsigned int base, int64_t at)
{
	const struct value *from = &walk->reg[base];

	if (from->kind == VALUE_STACK)
		return (struct value){ .kind = VALUE_WORD, .word = from->plus + at };
	if (base == REG_SP)
		return (struct value){ .kind = VALUE_ON_NEW, .plus = from->plus + at };
	if (from->kind == VALUE_WORD && !from->plus)
		return (struct value){ .kind = VALUE_FIELD, .word = from->word, .field = at };
	return (struct value){ .kind = VALUE_OF, .reg = base, .field = at };
}

static void store(struct walk *walk, unsigned int reg, unsigned int base, int64_t at)
{
	const struct value *sp = &walk->reg[REG_SP];

	walk->has_stored |= !walk->new_stack_at;
	if (walk->new_stack_at && sp->kind == VALUE_OF && base == sp->reg && at == sp->field && reg < REG_SP &&
	    walk->reg[reg].kind == VALUE_ON_NEW)
		walk->is_nested = true;
}

/* add and sub of an immediate; mov to and from sp. False: sp comes from what is not known. */
static bool add_immediate(struct walk *walk, uint32_t insn, size_t at)
{
	unsigned int to = insn & 31, from = insn >> 5 & 31;
	struct value value = walk->reg[from], moved = value;
	bool is_same_stack;

	moved.plus = walk->reg[REG_SP].plus;
	is_same_stack = !memcmp(&moved, &walk->reg[REG_SP], sizeof(moved));
	value.plus += insn >> 30 & 1 ? -(int64_t)(insn >> 10 & 0xfff) : (int64_t)(insn >> 10 & 0xfff);
	if (value.kind == VALUE_FIELD || value.kind == VALUE_ON_NEW)
		value.kind = value.plus == walk->reg[from].plus ? value.kind : VALUE_UNKNOWN;
	if (to == REG_SP && from != REG_SP && !is_same_stack) {
		if (walk->new_stack_at)
			return false;
		walk->new_stack_at = at;
		if (walk->has_stored && value.kind != VALUE_OF)
			value.kind = VALUE_UNKNOWN;
	}
	if (to == REG_SP)
		walk->reg[REG_SP] = value;
	else
		set_register(walk, to, value);
	return true;
}

static void subtract(struct walk *walk, uint32_t insn)
{
	const struct value *end = &walk->reg[insn >> 5 & 31], *depth = &walk->reg[insn >> 16 & 31];
	struct value value = { 0 };

	if (end->kind == VALUE_FIELD && depth->kind == VALUE_WORD && !depth->plus)
		value = (struct value){ .kind = VALUE_SWITCHED, .word = end->word, .field = end->field, .depth = depth->word };
	set_register(walk, insn & 31, value);
}

/* Go's functions leave g as it is, and store nothing where the code looks next. */
static void call(struct walk *walk)
{
	for (unsigned int i = 0; i < REG_SP; i++)
		if (i != REG_G)
			walk->reg[i] = (struct value){ 0 };
}

static int64_t pair_offset(uint32_t insn)
{
	return (int64_t)((int32_t)(insn << 10) >> 25) * 8;
}

static int64_t unscaled_offset(uint32_t insn)
{
	return (int32_t)(insn << 11) >> 23;
}

static void load_pair(struct walk *walk, uint32_t insn)
{
	unsigned int base = insn >> 5 & 31;
	struct value first = loaded(walk, base, pair_offset(insn)), second = loaded(walk, base, pair_offset(insn) + 8);

	set_register(walk, insn & 31, first);
	set_register(walk, insn >> 10 & 31, second);
}

/* False: control may go elsewhere, or what it does is not known. */
static bool walk_step(struct walk *walk, uint32_t insn, size_t at)
{
	unsigned int reg = insn & 31, base = insn >> 5 & 31, scaled = (insn >> 10 & 0xfff) * 8;

	if ((insn & 0xbfc00000) == 0x91000000)
		return add_immediate(walk, insn, at);
	if ((insn & 0xffc00000) == 0xf9400000 && reg != REG_SP)
		set_register(walk, reg, loaded(walk, base, scaled));
	else if ((insn & 0xffe00c00) == 0xf8400000 && reg != REG_SP)
		set_register(walk, reg, loaded(walk, base, unscaled_offset(insn)));
	else if ((insn & 0xffc00000) == 0xf9000000)
		store(walk, reg, base, scaled);
	else if ((insn & 0xffe00c00) == 0xf8000000)
		store(walk, reg, base, unscaled_offset(insn));
	else if ((insn & 0xffc00000) == 0xb9000000)
		store(walk, REG_SP, base, scaled / 2);
	else if ((insn & 0xffc00000) == 0xa9400000 && reg != REG_SP && (insn >> 10 & 31) != REG_SP)
		load_pair(walk, insn);
	else if ((insn & 0xffe0ffe0) == 0xaa0003e0 && reg != REG_SP && (insn >> 16 & 31) != REG_SP)
		set_register(walk, reg, walk->reg[insn >> 16 & 31]);
	else if ((insn & 0xffe0fc00) == 0xcb000000 && reg != REG_SP && base != REG_SP)
		subtract(walk, insn);
	else if ((insn & 0xfc000000) == 0x94000000)
		call(walk);
	else if (insn == 0xd65f03c0)
		walk->has_returned = true;
	else
		return (insn & 0xffc00000) == 0x6d400000; /* a pair of other registers is loaded */
	return !walk->has_returned;
}

#define NEAR_BYTES 128

/* Where a cbz or cbnz leads to. Once the callback is on C's stack again, both ways return from there. */
static size_t next_at(const struct scan_go *scan, const struct walk *walk, uint32_t insn, size_t at)
{
	size_t to = at + (int64_t)((int32_t)(insn << 8) >> 13) * 4;

	return (insn & 0xfe000000) == 0xb4000000 && walk->is_nested && to > at && to < scan->bytes ? to : 0;
}

/* Follows the code from a return address to the return. */
static void walk_from(const struct scan_go *scan, size_t from, struct walk *walk)
{
	size_t at = from;

	*walk = (struct walk){ .reg[REG_SP].kind = VALUE_STACK };
	while (at && at + 4 <= scan->bytes && at < from + 2 * NEAR_BYTES && !walk->has_returned)
		at = walk_step(walk, insn_at(scan, at), at) ? at + 4 : walk->has_returned ? 0 : next_at(scan, walk, insn_at(scan, at), at);
}

/* ---- rules ---- */

static bool fits_addend(int64_t offset)
{
	return offset >= 0 && offset <= UNWIND_ADDEND_MAX;
}

static struct unwind_rule rule_of_sp(const struct walk *walk)
{
	const struct value *sp = &walk->reg[REG_SP];
	struct unwind_rule rule = { 0 };

	if (sp->kind == VALUE_STACK && sp->plus > 0 && sp->plus <= UNWIND_OFFSET_MAX)
		rule = (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP, .cfa_off = sp->plus };
	else if (sp->kind == VALUE_WORD && fits_addend(sp->word) && fits_addend(sp->plus))
		rule = (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SP_DEREF, .cfa_off = sp->word, .addend = sp->plus };
	else if (sp->kind == VALUE_SWITCHED && fits_addend(sp->word) && fits_addend(sp->field) && fits_addend(sp->depth) &&
		 fits_addend(2 * sp->plus))
		rule = (struct unwind_rule){ .cfa_kind = UNWIND_CFA_SWITCH, .addend = sp->depth,
					     .cfa_off = UNWIND_SWITCH(sp->word, sp->field, sp->plus) };
	else if (sp->kind == VALUE_OF && walk->is_nested && fits_addend(sp->plus))
		rule = (struct unwind_rule){ .cfa_kind = UNWIND_CFA_LEFT, .cfa_off = sp->plus };
	return rule;
}

/* NONE if the way to the caller is not known. */
static struct unwind_rule rule_of_walk(const struct walk *walk)
{
	const struct value *sp = &walk->reg[REG_SP], *fp = &walk->reg[REG_FP], *link = &walk->reg[REG_LINK];
	bool is_on_stack = sp->kind == VALUE_STACK;
	int64_t fp_at = is_on_stack ? fp->word : fp->plus, link_at = is_on_stack ? link->word : link->plus;
	enum value_kind kind = is_on_stack ? VALUE_WORD : VALUE_ON_NEW;
	struct unwind_rule rule = rule_of_sp(walk);

	if (!walk->has_returned || fp->kind != kind || link->kind != kind || link_at != fp_at + 8)
		return (struct unwind_rule){ 0 };
	if (rule.cfa_kind) {
		rule.fp_kind = UNWIND_FP_AT_CFA;
		rule.fp_off = fp_at - sp->plus;
		rule.return_kind = UNWIND_RETURN_ABOVE_FP;
	}
	return rule;
}

static int add_go_rule(struct scan_go *scan, size_t return_at, struct unwind_rule rule)
{
	const struct stack_rule found = { .address = scan->vaddr + return_at - 1, .rule = rule };

	return entries_are_sure(scan->entries, found.address) ? 0 : array_push(scan->found, rule, found);
}

/* The calls before an instruction that loads sp. Functions of Go's that they call directly call no others. */
static int rules_before_load(struct scan_go *scan, size_t load)
{
	struct walk walk;
	int err = 0;

	for (size_t at = load > NEAR_BYTES ? load - NEAR_BYTES : 4; !err && at <= load; at += 4) {
		struct unwind_rule rule;

		if (!is_call(insn_at(scan, at - 4)))
			continue;
		walk_from(scan, at, &walk);
		if (walk.new_stack_at != load)
			continue;
		rule = is_blr(insn_at(scan, at - 4)) ? rule_of_walk(&walk) : (struct unwind_rule){ 0 };
		if (rule.cfa_kind != UNWIND_CFA_LEFT) {
			err = add_go_rule(scan, at, rule);
			continue;
		}
		scan->callback = at;
		scan->callback_rule = rule;
		scan->callback_field = walk.reg[REG_SP].field;
		scan->callback_nr++;
	}
	return err;
}

/* The first call behind a load of sp: without a rule, nothing on the new stack says where the old one is. */
static int no_rule_behind_load(struct scan_go *scan, size_t load)
{
	struct walk walk = { .reg[REG_SP].kind = VALUE_STACK }, back;
	size_t at = load >= 4 ? load - 4 : load; /* from where the register comes */

	while (at + 4 <= scan->bytes && at < load + NEAR_BYTES && !is_call(insn_at(scan, at)) && !is_jump(insn_at(scan, at))) {
		walk_step(&walk, insn_at(scan, at), at);
		at += 4;
	}
	if (at + 4 > scan->bytes || !is_call(insn_at(scan, at)))
		return 0;
	walk_from(scan, at + 4, &back);
	if (walk.reg[REG_SP].kind == VALUE_OF && rule_of_walk(&back).cfa_kind == UNWIND_CFA_SWITCH) {
		scan->begin_field = walk.reg[REG_SP].field;
		scan->begin_below = -walk.reg[REG_SP].plus;
		scan->begin_nr++;
	}
	return add_go_rule(scan, at + 4, (struct unwind_rule){ 0 });
}

/* crosscall2, at its call of the function that the callback returns from. */
static bool calls_callback(const struct scan_go *scan, size_t at)
{
	uint32_t insn = insn_at(scan, at);
	size_t to = at + (int64_t)((int32_t)(insn << 6) >> 6) * 4;

	return (insn & 0xfc000000) == 0x94000000 && to < scan->callback && scan->callback - to < 4 * NEAR_BYTES &&
	       !((scan->vaddr + to) % 16);
}

/* The callback's frame on C's stack lies right above the switch that went on from there. */
static int add_go_callback(struct scan_go *scan)
{
	bool is_called = false;
	struct walk walk;
	int err = 0;

	if (scan->callback_nr != 1 || scan->begin_nr != 1 || scan->callback_field != scan->begin_field)
		return 0;
	for (size_t at = 0; !err && at + 8 <= scan->bytes; at += 4) {
		if (!calls_callback(scan, at))
			continue;
		walk_from(scan, at + 4, &walk);
		if (rule_of_walk(&walk).cfa_kind != UNWIND_CFA_SP)
			continue;
		err = add_go_rule(scan, at + 4, rule_of_walk(&walk));
		is_called = true;
	}
	scan->callback_rule.cfa_off += scan->begin_below;
	return err || !is_called ? err : add_go_rule(scan, scan->callback, scan->callback_rule);
}

/* goexit: mov x0, x0; bl …. The goroutine's first function returns behind the first of these. */
static bool is_goexit_arm64(const struct scan_go *scan, size_t at)
{
	return insn_at(scan, at) == 0xaa0003e0 && (insn_at(scan, at + 4) & 0xfc000000) == 0x94000000 && !((scan->vaddr + at) % 16);
}

#define LOADS_MAX 256

int stack_rules_of_go_arm64(const struct unwind_segment *segment, const uint8_t *code, size_t bytes,
			    const struct entries *entries, struct stack_rules *found)
{
	const struct unwind_rule root = { .cfa_kind = UNWIND_CFA_ROOT };
	struct scan_go scan = { .code = code, .bytes = bytes & ~(size_t)3, .vaddr = segment->offset + segment->delta,
				.entries = entries, .found = found };
	unsigned int loads = 0;
	int err = 0;

	for (size_t at = 0; !err && at + 8 <= scan.bytes; at += 4) {
		if (is_load_of_sp(insn_at(&scan, at)) && !entries_are_sure(entries, scan.vaddr + at) && loads++ < LOADS_MAX)
			err = rules_before_load(&scan, at) ?: no_rule_behind_load(&scan, at);
		else if (is_goexit_arm64(&scan, at))
			err = add_go_rule(&scan, at + 4, root);
	}
	found->is_partial |= loads > LOADS_MAX;
	return err ?: add_go_callback(&scan);
}
