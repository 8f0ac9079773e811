/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CFI_MACHINE_H
#define ALLOCSNAP_UNWIND_CFI_MACHINE_H

/* The machines whose call frame information is compiled, each for files of its e_machine. */

#include <stdbool.h>
#include <stdint.h>

struct code_reader;

/*
 * Registers have their numbers in DWARF: the System V ABI's supplement for x86-64, and DWARF for the Arm 64-bit Architecture
 * (aadwarf64).
 */
struct cfi_machine {
	uint16_t elf_machine;
	uint8_t fp, sp, return_address;
	bool has_link; /* return_address is a register that functions save or leave as it is */
	const struct code_reader *reader; /* for what call frame information does not know of (stack_rules.h) */
};

/* NULL: not one of those. */
const struct cfi_machine *cfi_machine_of(uint16_t elf_machine);

#endif
