// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/cfi_program.h"

#include <dwarf.h>

static const struct unwind_rule unsupported = { .cfa_kind = UNWIND_CFA_UNSUPPORTED };

static bool fits_in_row(int64_t offset)
{
	return offset >= UNWIND_OFFSET_MIN && offset <= UNWIND_OFFSET_MAX;
}

/* ---- expressions ---- */

/* reg + offset, or the value stored there plus an addend: the only forms that compilers write. */
struct place {
	uint64_t reg;
	int64_t offset;
	bool is_deref;
	uint64_t addend;
};

static bool read_base(struct cursor *code, struct place *place)
{
	uint8_t op = cursor_u8(code);

	if (op == DW_OP_bregx)
		place->reg = cursor_uleb(code);
	else if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		place->reg = op - DW_OP_breg0;
	else
		return false;
	place->offset = cursor_sleb(code);
	return true;
}

static bool parse_place_expression(struct cursor code, struct place *place)
{
	*place = (struct place){ 0 };
	if (!read_base(&code, place))
		return false;
	if (cursor_left(&code)) {
		place->is_deref = cursor_u8(&code) == DW_OP_deref;
		if (!place->is_deref)
			return false;
	}
	if (cursor_left(&code)) {
		if (cursor_u8(&code) != DW_OP_plus_uconst)
			return false;
		place->addend = cursor_uleb(&code);
	}
	return !cursor_left(&code) && !code.is_cut && fits_in_row(place->offset) &&
	       place->addend <= UNWIND_ADDEND_MAX;
}

static bool is_sp_plus(const struct column *column, int64_t *ret_offset)
{
	struct place place;

	if (column->kind != COLUMN_AT_EXPRESSION || !parse_place_expression(column->expression, &place) ||
	    place.reg != REG_SP || place.is_deref)
		return false;
	*ret_offset = place.offset;
	return true;
}

/*
 * The expression that linkers write for the PLT. From a certain byte on, a slot has pushed one word
 * more, so the CFA is rsp + 8 + ((rip & 15) >= THRESHOLD) * 8.
 */
#define PLT_CFA 8
#define PLT_THRESHOLD_AT 6

static bool is_plt_expression(struct cursor code, unsigned int *ret_threshold)
{
	static const uint8_t form[] = {
		DW_OP_breg7, PLT_CFA, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit0,
		DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus,
	};
	uint8_t literal;

	if (cursor_left(&code) != sizeof(form))
		return false;
	literal = code.at[PLT_THRESHOLD_AT];
	*ret_threshold = literal - DW_OP_lit0;
	return literal >= DW_OP_lit0 && literal <= DW_OP_lit15 &&
	       !memcmp(code.at, form, PLT_THRESHOLD_AT) &&
	       !memcmp(code.at + PLT_THRESHOLD_AT + 1, form + PLT_THRESHOLD_AT + 1,
		       sizeof(form) - PLT_THRESHOLD_AT - 1);
}

/* ---- the CFA ---- */

/* [is_deref][is based on the frame pointer] */
static const enum unwind_cfa cfa_kinds[2][2] = {
	{ UNWIND_CFA_SP, UNWIND_CFA_FP },
	{ UNWIND_CFA_SP_DEREF, UNWIND_CFA_FP_DEREF },
};

static bool set_cfa_register(const struct column *cfa, struct unwind_rule *rule)
{
	if ((cfa->reg != REG_SP && cfa->reg != REG_FP) || !fits_in_row(cfa->offset))
		return false;
	rule->cfa_kind = cfa_kinds[false][cfa->reg == REG_FP];
	rule->cfa_off = cfa->offset;
	return true;
}

static bool set_cfa_expression(const struct column *cfa, struct unwind_rule *rule)
{
	struct place place;
	unsigned int threshold;

	if (is_plt_expression(cfa->expression, &threshold)) {
		rule->cfa_kind = UNWIND_CFA_PLT;
		rule->cfa_off = PLT_CFA;
		rule->addend = threshold;
		return true;
	}
	if (!parse_place_expression(cfa->expression, &place) || (place.reg != REG_SP && place.reg != REG_FP))
		return false;
	rule->cfa_kind = cfa_kinds[place.is_deref][place.reg == REG_FP];
	rule->cfa_off = place.offset;
	rule->addend = place.addend;
	return true;
}

static bool rule_set_cfa(const struct column *cfa, struct unwind_rule *rule)
{
	if (cfa->kind == COLUMN_IS_REGISTER)
		return set_cfa_register(cfa, rule);
	return cfa->kind == COLUMN_IS_EXPRESSION && set_cfa_expression(cfa, rule);
}

/* ---- the frame pointer ---- */

/*
 * A frame pointer that a rule cannot express is lost. Such functions are rare, and their callers
 * seldom need it.
 */
static void set_fp(const struct column *fp, struct unwind_rule *rule)
{
	struct place place;

	rule->fp_kind = UNWIND_FP_LOST;
	if (fp->kind == COLUMN_UNSAID || fp->kind == COLUMN_SAME) {
		rule->fp_kind = UNWIND_FP_SAME;
	} else if (fp->kind == COLUMN_AT_CFA && fits_in_row(fp->offset)) {
		rule->fp_kind = UNWIND_FP_AT_CFA;
		rule->fp_off = fp->offset;
	} else if (fp->kind == COLUMN_AT_EXPRESSION && parse_place_expression(fp->expression, &place) &&
		   (place.reg == REG_FP || place.reg == REG_SP) && !place.is_deref) {
		rule->fp_kind = place.reg == REG_FP ? UNWIND_FP_AT_FP : UNWIND_FP_AT_SP;
		rule->fp_off = place.offset;
	}
}

/* ---- rows ---- */

/* The stack pointer's own column, if there is one, must agree with the CFA. */
static bool sp_is_at(const struct column *sp, int64_t offset)
{
	int64_t sp_offset;

	return sp->kind == COLUMN_UNSAID || (is_sp_plus(sp, &sp_offset) && sp_offset == offset);
}

/*
 * The C library's function to which the kernel returns from a signal handler. All registers are
 * saved above its stack pointer.
 */
static struct unwind_rule rule_of_signal(const struct cfi_row *row)
{
	struct unwind_rule rule = { 0 };
	int64_t return_offset, fp_offset;

	if (row->cfa.kind != COLUMN_IS_EXPRESSION || !set_cfa_expression(&row->cfa, &rule) ||
	    rule.cfa_kind != UNWIND_CFA_SP_DEREF || rule.addend || !sp_is_at(&row->sp, rule.cfa_off) ||
	    !is_sp_plus(&row->return_address, &return_offset) || !is_sp_plus(&row->fp, &fp_offset) ||
	    return_offset != rule.cfa_off + 8)
		return unsupported;
	rule.cfa_kind = UNWIND_CFA_SIGNAL;
	rule.fp_off = fp_offset;
	return rule;
}

static struct unwind_rule rule_of_call(const struct cfi_row *row)
{
	struct unwind_rule rule = { 0 };

	if (row->return_address.kind != COLUMN_AT_CFA || row->return_address.offset != -8 ||
	    row->sp.kind != COLUMN_UNSAID || !rule_set_cfa(&row->cfa, &rule))
		return unsupported;
	set_fp(&row->fp, &rule);
	return rule;
}

struct unwind_rule rule_of(const struct program *program)
{
	const struct cfi_row *row = &program->row;

	if (program->is_wrong || program->cie->return_register != REG_RETURN)
		return unsupported;
	if (row->return_address.kind == COLUMN_UNDEFINED)
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_ROOT };
	return program->cie->is_signal ? rule_of_signal(row) : rule_of_call(row);
}
