/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_RULE_H
#define ALLOCSNAP_UNWIND_RULE_H

#include "unwind/program.h"
#include "shared/unwind_types.h"

/*
 * The rule for a row. It is UNWIND_CFA_UNSUPPORTED if the CFA is based on another register, an
 * offset is too large, the return address is not below the CFA, or the stack pointer is not the
 * CFA.
 */
struct unwind_rule rule_of(const struct program *program);

#endif
