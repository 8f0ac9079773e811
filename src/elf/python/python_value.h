/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_VALUE_H
#define ALLOCSNAP_ELF_PYTHON_VALUE_H

/*
 * Follows a straight line of x86-64 instructions and finds what registers hold there, in terms of the registers and the
 * memory at its begin. Whatever it does not understand is not known.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/python/python_code.h"
#include "shared/argument_types.h"

struct python_value {
	bool is_known;
	bool is_place; /* it contains an address of the file, to which the load bias is to be added */
	/* Sums are of kind ARGUMENT_ADDRESS, even if one register or number is all that they have. */
	struct argument_source source;
};

#define PYTHON_REGISTERS 21 /* a register's number: its place in struct pt_regs / 8 */
#define PYTHON_STACK_SLOTS 8

struct python_state {
	struct python_code *code;
	bool reads_file; /* memory at fixed addresses holds what the file says */
	bool has_stored; /* something was written that is not on the stack: memory is not known any more, */
	bool has_stored_elsewhere; /* unless all of it is on the stack by rbp, and other bytes by rbp are read */
	struct python_value reg[PYTHON_REGISTERS];
	struct {
		unsigned short base; /* of rsp or rbp in struct pt_regs */
		uint64_t at; /* that register at the begin + this */
		uint32_t bytes;
		struct python_value value;
	} slot[PYTHON_STACK_SLOTS];
	uint32_t slot_nr;
};

/* Every register holds itself; with reads_file nothing is known. */
void python_state_begin(struct python_state *state, struct python_code *code, bool reads_file);

/* Follows the instruction decoded last. False: the line cannot be followed. */
bool python_state_step(struct python_state *state);

/* An operand of the instruction decoded last, and the address of one in memory. */
struct python_value python_state_operand(struct python_state *state, const cs_x86_op *op);
struct python_value python_state_address(const struct python_state *state, const x86_op_mem *memory);

/* A value of eight bytes that does not depend on registers. */
bool python_value_is_constant(const struct python_value *value, uint64_t *ret);

bool python_values_equal(const struct python_value *a, const struct python_value *b);

/* As simple as possible. False: not known, or it depends on where the file is loaded. */
bool python_value_source(const struct python_state *state, const struct python_value *value,
			 struct argument_source *ret);

#endif
