/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CODE_RULE_H
#define ALLOCSNAP_UNWIND_CODE_RULE_H

/*
 * The rule at a return address, read from the code itself: the instructions from there to the return say where the
 * caller's stack pointer comes from. They are followed by what they do, not compared with known ones.
 */

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/unwind_types.h"

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

void code_walk_begin(struct code_walk *walk);

/* Follows an instruction. False: control may go elsewhere, or what it does is not known. */
bool code_walk_step(struct code_walk *walk, const cs_insn *insn);

/*
 * The rule after has_returned; UNWIND_CFA_NONE if the stack pointer is not known. A switch of stacks begins at a place
 * that a field says. If code takes its stack pointer from such a field and puts the word there into the field again, the
 * rule is UNWIND_CFA_LEFT, and cfa_off counts from that place.
 */
struct unwind_rule code_walk_rule(const struct code_walk *walk);

#endif
