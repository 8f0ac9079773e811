// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/stack_code.h"

#include <errno.h>
#include <string.h>

#include "base/array.h"
#include "elf/a64_words.h"
#include "unwind/stack_rules.h"

/*
 * sp is loaded from a register only (add sp, xN, #0), and the code that Go's calls return to restores x29 and x30 as a
 * pair.
 */

enum { REG_G = 28, REG_SP = 31 };

/* ---- instructions (DDI 0487, C4.1) ---- */

/* The number is `bits` wide from `low` on, times scale; only one of 12 bits has no sign. */
struct code_row {
	uint32_t mask, value;
	enum code_effect_kind kind;
	bool has_base, is_pair;
	uint8_t low, bits;
	int8_t scale;
};

/* The first row that fits counts. */
static const struct code_row code_rows[] = {
	{ 0xffc00000, 0x91000000, EFFECT_ADD, .low = 10, .bits = 12, .scale = 1 },
	{ 0xffc00000, 0xd1000000, EFFECT_ADD, .low = 10, .bits = 12, .scale = -1 }, /* sub */
	{ 0xffc00000, 0xf9400000, EFFECT_SET, true, .low = 10, .bits = 12, .scale = 8 }, /* ldr, ldur, ldp */
	{ 0xffe00c00, 0xf8400000, EFFECT_SET, true, .low = 12, .bits = 9, .scale = 1 },
	{ 0xffc00000, 0xa9400000, EFFECT_SET, true, true, .low = 15, .bits = 7, .scale = 8 },
	{ 0xffc00000, 0xf9000000, EFFECT_STORE, true, .low = 10, .bits = 12, .scale = 8 }, /* str, stur, and of half a register */
	{ 0xffe00c00, 0xf8000000, EFFECT_STORE, true, .low = 12, .bits = 9, .scale = 1 },
	{ 0xffc00000, 0xb9000000, EFFECT_STORE, true, .low = 10, .bits = 12, .scale = 4 },
	{ 0xffc00000, 0x6d400000, EFFECT_NONE }, /* ldp of other registers */
	{ 0xffffffe0, 0xaa1f03e0, EFFECT_UNKNOWN }, /* mov of zero */
	{ 0xffe0ffe0, 0xaa0003e0, EFFECT_SET },	    /* mov */
	{ 0xffe0ffe0, 0xcb0003e0, EFFECT_UNKNOWN }, /* neg */
	{ 0xffe0fc00, 0xcb000000, EFFECT_SUBTRACT },
	{ 0xfc000000, 0x94000000, EFFECT_CALL_OF_GO, .low = 0, .bits = 26, .scale = 4 }, /* bl */
	{ 0xfffffc1f, 0xd63f0000, EFFECT_CALL },					 /* blr */
	{ 0xffffffff, 0xd65f03c0, EFFECT_RETURN },
	{ 0xfe000000, 0xb4000000, EFFECT_BRANCH, .low = 5, .bits = 19, .scale = 4 }, /* cbz, cbnz */
	{ 0xfc000000, 0x14000000, EFFECT_JUMP }, /* b; b.cond; cbz and tbz; br and ret */
	{ 0xfe000000, 0x54000000, EFFECT_JUMP },
	{ 0x7c000000, 0x34000000, EFFECT_JUMP },
	{ 0xff9ffc1f, 0xd61f0000, EFFECT_JUMP },
	{ 0, 0, EFFECT_UNKNOWN },
};

static const struct code_row *row_of_word(uint32_t word)
{
	const struct code_row *row = code_rows;

	while ((word & row->mask) != row->value)
		row++;
	return row;
}

static int64_t number_of_row(uint32_t word, const struct code_row *row)
{
	int64_t number = row->bits ? signed_field(word, row->low, row->bits) : 0;

	return (row->bits == 12 ? field(word, row->low, row->bits) : number) * row->scale;
}

/* Register 31 is sp in additions and as a base, and otherwise none. */
static uint8_t register_in(uint32_t word, unsigned int low, bool may_be_sp)
{
	return field(word, low, 5) == REG_SP && !may_be_sp ? NO_REGISTER : field(word, low, 5);
}

static bool read_arm64(const struct code *code, size_t at, struct code_effect *ret)
{
	const struct code_row *row;
	uint32_t word;
	bool is_add;

	if (at + 4 > code->size)
		return false;
	word = a64_word(code->byte + at);
	row = row_of_word(word);
	is_add = row->kind == EFFECT_ADD;
	*ret = (struct code_effect){
		.kind = row->kind,
		.to = register_in(word, 0, is_add),
		.left = register_in(word, 5, is_add),
		.from = register_in(word, row->kind == EFFECT_STORE ? 0 : 16, false),
		.base = row->has_base ? field(word, 5, 5) : NO_REGISTER,
		.second = row->is_pair ? register_in(word, 10, false) : NO_REGISTER,
		.offset = number_of_row(word, row),
		.end = at + 4,
		.target = at + number_of_row(word, row),
	};
	if (row->kind == EFFECT_STORE && row->scale == 4)
		ret->from = NO_REGISTER;
	if (row->kind == EFFECT_CALL_OF_GO)
		ret->from = REG_G;
	if ((row->kind == EFFECT_SET || row->kind == EFFECT_SUBTRACT) &&
	    (ret->to == NO_REGISTER || (row->is_pair && ret->second == NO_REGISTER)))
		ret->kind = EFFECT_UNKNOWN;
	if (ret->kind == EFFECT_UNKNOWN)
		ret->to = NO_REGISTER;
	return true;
}

/* goexit: mov x0, x0; bl …. */
static enum code_mark mark_of_arm64(const uint8_t *byte)
{
	uint32_t word = a64_word(byte);

	if ((word & 0xfffffc1f) == 0x9100001f && field(word, 5, 5) != REG_SP)
		return MARK_LOAD;
	return word == 0xaa0003e0 && (a64_word(byte + 4) & 0xfc000000) == 0x94000000 ? MARK_GOEXIT : MARK_NONE;
}

static enum code_effect_kind arm64_call_before(const struct code *code, size_t at)
{
	enum code_effect_kind kind = at < 4 ? EFFECT_NONE : row_of_word(a64_word(code->byte + at - 4))->kind;

	return kind == EFFECT_CALL || kind == EFFECT_CALL_OF_GO ? kind : EFFECT_NONE;
}

static size_t arm64_call_target(const struct code *code, size_t at, size_t *ret_end)
{
	uint32_t word = a64_word(code->byte + at);

	*ret_end = at + 4;
	return (word & 0xfc000000) == 0x94000000 ? at + signed_field(word, 0, 26) * 4 : SIZE_MAX;
}

/* ---- signals ---- */

/* mov x8,#139 (rt_sigreturn); svc #0 */
static const uint32_t sigreturn[] = { 0xd2801168, 0xd4000001 };

/*
 * struct rt_sigframe of arch/arm64/kernel/signal.c: siginfo_t has 128 bytes, ucontext_t 176 before its struct sigcontext,
 * which has the fault's address, x0 to x30, sp and pc.
 */
#define FRAME_X0 (128 + 176 + 8)
#define FRAME_FP (FRAME_X0 + 29 * 8)
#define FRAME_SP (FRAME_X0 + 31 * 8)

static const struct unwind_rule rule_of_sigreturn = {
	.cfa_kind = UNWIND_CFA_SIGNAL, .cfa_off = FRAME_SP, .fp_off = FRAME_FP, .return_kind = UNWIND_RETURN_ABOVE_FP,
};

/* Nothing calls the code: the handler returns to its first byte, and is looked up at the byte before. */
static int find_signals(const struct code *code, const struct entries *entries, struct stack_rules *found)
{
	int err = 0;

	for (size_t at = 4; !err && at + sizeof(sigreturn) <= code->size; at += 4) {
		uint64_t vaddr = code->vaddr + at;

		if (!memcmp(code->byte + at, sigreturn, sizeof(sigreturn)) && !entries_are_sure(entries, vaddr))
			err = array_push(found, rule, ((struct stack_rule){ vaddr - 1, rule_of_sigreturn }));
	}
	return err;
}

const struct code_reader code_reader_arm64 = {
	.step = 4,
	.before_load = 4,
	.has_round_sp = true,
	.read = read_arm64,
	.mark = mark_of_arm64,
	.call_before = arm64_call_before,
	.call_target = arm64_call_target,
	.find_signals = find_signals,
};
