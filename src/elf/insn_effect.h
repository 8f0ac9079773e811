/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_INSN_EFFECT_H
#define ALLOCSNAP_ELF_INSN_EFFECT_H

/*
 * The effect of x86-64 instructions on registers and flags. capstone 4's own lists of registers read and written have errors, so only
 * instructions that are listed here are relied on.
 */

#include <capstone/capstone.h>
#include <stdbool.h>

/* Instructions that change nothing but flags. */
bool insn_only_looks(const cs_insn *insn);

/* Instructions whose only explicit result is their first operand; they may change flags, too. */
bool insn_writes_first_operand(const cs_insn *insn);

#endif
