/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_STACK_CODE_H
#define ALLOCSNAP_UNWIND_STACK_CODE_H

/* The machines' instructions, as far as stack_rules.c follows them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By their numbers in DWARF, as in cfi_machine.h. */
#define CODE_REGISTERS 32
#define NO_REGISTER CODE_REGISTERS /* none, or one that is not followed */

/* From EFFECT_CLEAR to EFFECT_ROUND `to` is set. */
enum code_effect_kind {
	EFFECT_UNKNOWN, /* register `to` has changed, if there is one */
	EFFECT_NONE,
	EFFECT_CLEAR,	 /* to = what is not known */
	EFFECT_SET,	 /* to = the source; second = the word behind it */
	EFFECT_ADD,	 /* to = left + offset */
	EFFECT_SUBTRACT, /* to = left - the source */
	EFFECT_ROUND,	 /* to, the stack pointer, is rounded down to a multiple of 16 */
	EFFECT_STORE,	 /* *(base + offset) = from */
	EFFECT_BRANCH,	 /* goes on, or at the target */
	EFFECT_JUMP,	 /* goes elsewhere, or may */
	EFFECT_CALL,
	EFFECT_CALL_OF_GO, /* of a function of Go's that calls no others, leaves `from` as it is, and stores nothing */
	EFFECT_RETURN,
};

/* The source is *(base + offset), or else the register `from`. */
struct code_effect {
	enum code_effect_kind kind;
	uint8_t to, second, left, from, base;
	uint8_t popped; /* bytes: then the stack pointer has grown */
	int64_t offset;
	size_t end, target; /* in the code */
};

struct code {
	const uint8_t *byte;
	size_t size;
	uint64_t vaddr;
	size_t capstone; /* x86-64's decoder */
	struct cs_insn *insn;
};

enum code_mark {
	MARK_NONE,
	MARK_LOAD,   /* an instruction that loads the stack pointer, or looks so */
	MARK_GOEXIT, /* looks as if goexit begins there */
};

#define MARK_BYTES 8

struct entries;
struct stack_rules;

struct code_reader {
	uint8_t step;	     /* bytes between places where an instruction may be, and of goexit's first one */
	uint8_t before_load; /* bytes of the instruction that says what the stack pointer is loaded with */
	bool has_round_sp;   /* the stack pointer is a multiple of 16 at any time */

	int (*open)(struct code *code); /* NULL: needs no decoder */
	void (*close)(struct code *code);
	/* The instruction there. False: none that is known. */
	bool (*read)(const struct code *code, size_t at, struct code_effect *ret);
	/* By the first MARK_BYTES. */
	enum code_mark (*mark)(const uint8_t *byte);
	/* The call that ends there, or looks so; else EFFECT_NONE. */
	enum code_effect_kind (*call_before)(const struct code *code, size_t at);
	/* Where a direct call leads to; SIZE_MAX: it is none. */
	size_t (*call_target)(const struct code *code, size_t at, size_t *ret_end);
	/* Adds the rules of other code than Go's; NULL: it has none. 0 or -ENOMEM. */
	int (*find_signals)(const struct code *code, const struct entries *entries, struct stack_rules *found);
};

extern const struct code_reader code_reader_x86, code_reader_arm64;

#endif
