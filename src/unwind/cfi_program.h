/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CFI_PROGRAM_H
#define ALLOCSNAP_UNWIND_CFI_PROGRAM_H

/*
 * Runs the call frame instructions of a function. The result is a table with a row for each address
 * at which something changes, and a column for each register that the unwinder needs.
 */

#include "shared/unwind_types.h"
#include "unwind/cfi_entries.h"

enum column_kind {
	COLUMN_UNSAID = 0, /* the ABI's default: unchanged; the stack pointer is the CFA */
	COLUMN_UNDEFINED,
	COLUMN_SAME,
	COLUMN_AT_CFA,		/* saved at CFA + offset */
	COLUMN_AT_EXPRESSION,	/* saved at the address that an expression computes */
	COLUMN_IS_REGISTER,	/* the CFA only: reg + offset */
	COLUMN_IS_EXPRESSION,	/* the CFA only */
	COLUMN_OTHER,		/* unsupported */
};

struct column {
	enum column_kind kind;
	uint32_t reg;
	int64_t offset;
	struct cursor expression;
};

struct cfi_row {
	struct column cfa, fp, sp, return_address;
};

/* Limits far above what compilers use: a hostile file cannot cost much more time than its size. */
#define REMEMBERED_MAX 32   /* rows on the stack of DW_CFA_remember_state; compilers use 1 or 2 */
#define CIE_PROGRAM_MAX 256 /* bytes; compilers use 8. It runs again whenever functions of two CIEs alternate */

struct program {
	const struct cfi_machine *machine;
	const struct cie *cie;
	struct cursor code;
	uint64_t address;
	struct cfi_row row, initial;
	struct column ignored; /* for registers that the unwinder does not need */
	bool is_wrong;	       /* an instruction is malformed: the row is invalid */
	bool is_cie_wrong;
	uint32_t remembered_nr;
	struct cfi_row remembered[REMEMBERED_MAX];
};

/* Computes the first row of all functions of a CIE. program->machine is set. */
void program_start(struct program *program, const struct cie *cie);

/*
 * Receives program->row, which holds from an address on (unless is_wrong). 0, or an error that ends
 * the run.
 */
typedef int (*program_row_fn)(void *context, const struct program *program, uint64_t from);

/*
 * Calls add() for each row of a function of that CIE, at least once. Addresses increase from the
 * function's start and stay below `until`. Returns the last result of add().
 */
int program_run(struct program *program, const struct fde *fde, uint64_t until, program_row_fn add,
		void *context);

/*
 * The rule for a row. It is UNWIND_CFA_UNSUPPORTED if the CFA is based on another register, an
 * offset is too large, the return address is in no place of enum unwind_return, or the stack pointer is not the CFA.
 */
struct unwind_rule rule_of(const struct program *program);

#endif
