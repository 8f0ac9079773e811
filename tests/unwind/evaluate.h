/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_UNWIND_EVALUATE_H
#define ALLOCSNAP_TESTS_UNWIND_EVALUATE_H

/*
 * A step from a frame to its caller, as libdw describes it: its expressions are worked out with
 * invented registers and an invented memory. A judge that shares no code with src/unwind.
 */

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct registers {
	uint64_t pc, sp, fp;
};

/* The word at an address, if there is one. */
typedef bool (*memory_fn)(void *memory, uint64_t address, uint64_t *ret);

enum told {
	TOLD,	       /* *ret is what the caller's register is */
	TOLD_UNDEFINED,
	TOLD_MORE,     /* it needs other registers or operations than these */
};

enum told evaluate_cfa(Dwarf_Frame *frame, const struct registers *registers, memory_fn read,
		       void *memory, uint64_t *ret);

/* Also where the register is saved; 0: it isn't in memory. */
enum told evaluate_register(Dwarf_Frame *frame, int number, const struct registers *registers,
			    memory_fn read, void *memory, uint64_t *ret, uint64_t *ret_at);

#endif
