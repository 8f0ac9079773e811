/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_X86_INSTRUCTIONS_H
#define ALLOCSNAP_ELF_X86_INSTRUCTIONS_H

/*
 * Instructions of x86-64, decoded by capstone. Apart from elf_object.h, as capstone 5 and the kernel's headers both have a
 * bpf_insn.
 */

#include <capstone/capstone.h>
#include <stdbool.h>

/* Opens capstone for x86-64, with room for one instruction in detail. 0 or -ENOMEM; then there is nothing to close. */
int decoder_open(csh *ret_capstone, cs_insn **ret_insn);
void decoder_close(csh *capstone, cs_insn **insn); /* also if they are zero */

bool insn_has_group(const cs_insn *insn, unsigned int group);
bool insn_is_jcc(const cs_insn *insn);
bool insn_calls_pointer(const cs_insn *insn); /* a call or a jump that is not to a fixed place */

/*
 * The effect of x86-64 instructions on registers and flags. capstone 4's own lists of registers read and written have errors, so only
 * instructions that are listed here are relied on.
 */

/* Instructions that change nothing but flags. */
bool insn_only_looks(const cs_insn *insn);

/* Instructions whose only explicit result is their first operand; they may change flags, too. */
bool insn_writes_first_operand(const cs_insn *insn);

#endif
