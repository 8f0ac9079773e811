// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/cfi_program.h"

#include <dwarf.h>
#include <limits.h>

#include "unwind/cfi_machine.h"

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

static bool is_sp_plus(const struct cfi_machine *machine, const struct column *column, int64_t *ret_offset)
{
	struct place place;

	if (column->kind != COLUMN_AT_EXPRESSION || !parse_place_expression(column->expression, &place) ||
	    place.reg != machine->sp || place.is_deref)
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

static bool set_cfa_register(const struct cfi_machine *machine, const struct column *cfa, struct unwind_rule *rule)
{
	if ((cfa->reg != machine->sp && cfa->reg != machine->fp) || !fits_in_row(cfa->offset))
		return false;
	rule->cfa_kind = cfa_kinds[false][cfa->reg == machine->fp];
	rule->cfa_off = cfa->offset;
	return true;
}

static bool set_cfa_expression(const struct cfi_machine *machine, const struct column *cfa, struct unwind_rule *rule)
{
	struct place place;
	unsigned int threshold;

	if (is_plt_expression(cfa->expression, &threshold)) {
		rule->cfa_kind = UNWIND_CFA_PLT;
		rule->cfa_off = PLT_CFA;
		rule->addend = threshold;
		return true;
	}
	if (!parse_place_expression(cfa->expression, &place) || (place.reg != machine->sp && place.reg != machine->fp))
		return false;
	rule->cfa_kind = cfa_kinds[place.is_deref][place.reg == machine->fp];
	rule->cfa_off = place.offset;
	rule->addend = place.addend;
	return true;
}

static bool rule_set_cfa(const struct cfi_machine *machine, const struct column *cfa, struct unwind_rule *rule)
{
	if (cfa->kind == COLUMN_IS_REGISTER)
		return set_cfa_register(machine, cfa, rule);
	return cfa->kind == COLUMN_IS_EXPRESSION && set_cfa_expression(machine, cfa, rule);
}

/* ---- the frame pointer ---- */

static bool is_unchanged(const struct column *column)
{
	return column->kind == COLUMN_UNSAID || column->kind == COLUMN_SAME;
}

static bool is_saved_at_cfa(const struct column *column)
{
	return column->kind == COLUMN_AT_CFA && column->offset >= UNWIND_FP_OFFSET_MIN &&
	       column->offset <= UNWIND_FP_OFFSET_MAX;
}

/*
 * A frame pointer that a rule cannot express is lost. Such functions are rare, and their callers
 * seldom need it.
 */
static void set_fp(const struct cfi_machine *machine, const struct column *fp, struct unwind_rule *rule)
{
	struct place place;

	rule->fp_kind = UNWIND_FP_LOST;
	if (is_unchanged(fp)) {
		rule->fp_kind = UNWIND_FP_SAME;
	} else if (is_saved_at_cfa(fp)) {
		rule->fp_kind = UNWIND_FP_AT_CFA;
		rule->fp_off = fp->offset;
	} else if (fp->kind == COLUMN_AT_EXPRESSION && parse_place_expression(fp->expression, &place) &&
		   (place.reg == machine->fp || place.reg == machine->sp) && !place.is_deref &&
		   place.offset >= UNWIND_FP_OFFSET_MIN && place.offset <= UNWIND_FP_OFFSET_MAX) {
		rule->fp_kind = place.reg == machine->fp ? UNWIND_FP_AT_FP : UNWIND_FP_AT_SP;
		rule->fp_off = place.offset;
	}
}

/* ---- the return address ---- */

/* Where it is on the machine whose calls leave it in a register. The frame pointer's rule is there already. */
static bool set_link(const struct column *link, struct unwind_rule *rule)
{
	if (is_unchanged(link)) {
		rule->return_kind = UNWIND_RETURN_IN_LINK;
		return true;
	}
	if (!is_saved_at_cfa(link))
		return false;
	rule->return_kind = UNWIND_RETURN_ABOVE_FP;
	if (rule->fp_kind == UNWIND_FP_AT_CFA && link->offset == rule->fp_off + 8)
		return true;
	rule->return_kind = UNWIND_RETURN_AT_CFA;
	if (rule->fp_kind != UNWIND_FP_SAME)
		rule->fp_kind = UNWIND_FP_LOST;
	rule->fp_off = link->offset;
	return true;
}

static bool set_return(const struct cfi_machine *machine, const struct column *return_address, struct unwind_rule *rule)
{
	return machine->has_link ? set_link(return_address, rule) :
				   return_address->kind == COLUMN_AT_CFA && return_address->offset == -8;
}

/* ---- rows ---- */

/* The stack pointer's own column, if there is one, must agree with the CFA. */
static bool sp_is_at(const struct cfi_machine *machine, const struct column *sp, int64_t offset)
{
	int64_t sp_offset;

	return sp->kind == COLUMN_UNSAID || (is_sp_plus(machine, sp, &sp_offset) && sp_offset == offset);
}

/*
 * The C library's function to which the kernel returns from a signal handler. All registers are
 * saved above its stack pointer. arm64's is in the vDSO, which says nothing of it (stack_rules.h).
 */
static struct unwind_rule rule_of_signal(const struct cfi_machine *machine, const struct cfi_row *row)
{
	struct unwind_rule rule = { 0 };
	int64_t return_offset, fp_offset;

	if (row->cfa.kind != COLUMN_IS_EXPRESSION || !set_cfa_expression(machine, &row->cfa, &rule) ||
	    rule.cfa_kind != UNWIND_CFA_SP_DEREF || rule.addend || !sp_is_at(machine, &row->sp, rule.cfa_off) ||
	    !is_sp_plus(machine, &row->return_address, &return_offset) || !is_sp_plus(machine, &row->fp, &fp_offset) ||
	    return_offset != rule.cfa_off + 8 || fp_offset > UNWIND_FP_OFFSET_MAX || fp_offset < UNWIND_FP_OFFSET_MIN)
		return unsupported;
	rule.cfa_kind = UNWIND_CFA_SIGNAL;
	rule.fp_off = fp_offset;
	return rule;
}

static struct unwind_rule rule_of_call(const struct cfi_machine *machine, const struct cfi_row *row)
{
	struct unwind_rule rule = { 0 };

	if (row->sp.kind != COLUMN_UNSAID || !rule_set_cfa(machine, &row->cfa, &rule))
		return unsupported;
	set_fp(machine, &row->fp, &rule);
	return set_return(machine, &row->return_address, &rule) ? rule : unsupported;
}

struct unwind_rule rule_of(const struct program *program)
{
	const struct cfi_row *row = &program->row;

	if (program->is_wrong || program->cie->return_register != program->machine->return_address)
		return unsupported;
	if (row->return_address.kind == COLUMN_UNDEFINED)
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_ROOT };
	return program->cie->is_signal ? rule_of_signal(program->machine, row) : rule_of_call(program->machine, row);
}

static struct column *column_of(struct program *program, struct cfi_row *row, uint64_t reg)
{
	const struct cfi_machine *machine = program->machine;

	return reg == machine->fp ? &row->fp : reg == machine->sp ? &row->sp :
	       reg == machine->return_address ? &row->return_address : &program->ignored;
}

static uint64_t read_uleb(struct program *program)
{
	return cursor_uleb(&program->code);
}

/* The column of the register that an instruction names. */
static struct column *read_column(struct program *program)
{
	return column_of(program, &program->row, read_uleb(program));
}

static struct cursor read_expression(struct program *program)
{
	return cursor_take(&program->code, read_uleb(program));
}

static int64_t factored(const struct program *program, int64_t offset)
{
	int64_t product;

	return __builtin_mul_overflow(offset, program->cie->data_align, &product) ? INT64_MAX :
										    product;
}

static void is_saved_at(struct column *column, int64_t offset)
{
	column->kind = COLUMN_AT_CFA;
	column->offset = offset;
}

static void advance_location(struct program *program, uint64_t delta)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(delta, program->cie->code_align, &bytes) ||
	    __builtin_add_overflow(program->address, bytes, &program->address))
		program->is_wrong = true;
}

/* ---- instructions, by their number ---- */

static void op_nop(struct program *program)
{
	(void)program;
}

static void op_set_loc(struct program *program)
{
	uint64_t before = program->address;

	if (!encoded_pointer(program->cie->section, &program->code,
			     program->cie->pointer_encoding, &program->address) ||
	    program->address < before) {
		program->address = before;
		program->is_wrong = true;
	}
}

static void op_advance1(struct program *program)
{
	advance_location(program, cursor_u8(&program->code));
}

static void op_advance2(struct program *program)
{
	advance_location(program, cursor_uint(&program->code, 2));
}

static void op_advance4(struct program *program)
{
	advance_location(program, cursor_uint(&program->code, 4));
}

static void op_offset_extended(struct program *program)
{
	struct column *column = read_column(program);

	is_saved_at(column, factored(program, (int64_t)read_uleb(program)));
}

static void op_offset_extended_sf(struct program *program)
{
	struct column *column = read_column(program);

	is_saved_at(column, factored(program, cursor_sleb(&program->code)));
}

static void op_negative_offset(struct program *program)
{
	struct column *column = read_column(program);

	is_saved_at(column, factored(program, -(int64_t)(read_uleb(program) & INT64_MAX)));
}

static void op_restore_extended(struct program *program)
{
	uint64_t reg = read_uleb(program);

	*column_of(program, &program->row, reg) = *column_of(program, &program->initial, reg);
}

static void op_undefined(struct program *program)
{
	read_column(program)->kind = COLUMN_UNDEFINED;
}

/* Go's arm64 code says of the stack pointer that it is the CFA, as it is if nothing is said. */
static void op_val_offset(struct program *program)
{
	struct column *column = read_column(program);

	column->kind = read_uleb(program) || column != &program->row.sp ? COLUMN_OTHER : COLUMN_UNSAID;
}

static void op_same_value(struct program *program)
{
	read_column(program)->kind = COLUMN_SAME;
}

/* The value is in another register, or is a number: the unwinder supports neither. */
static void op_other(struct program *program)
{
	struct column *column = read_column(program);

	read_uleb(program);
	column->kind = COLUMN_OTHER;
}

static void op_other_expression(struct program *program)
{
	struct column *column = read_column(program);

	read_expression(program);
	column->kind = COLUMN_OTHER;
}

static void op_expression(struct program *program)
{
	struct column *column = read_column(program);

	column->kind = COLUMN_AT_EXPRESSION;
	column->expression = read_expression(program);
}

static void op_remember_state(struct program *program)
{
	if (program->remembered_nr == REMEMBERED_MAX)
		program->is_wrong = true;
	else
		program->remembered[program->remembered_nr++] = program->row;
}

static void op_restore_state(struct program *program)
{
	if (!program->remembered_nr)
		program->is_wrong = true;
	else
		program->row = program->remembered[--program->remembered_nr];
}

static void program_set_cfa(struct program *program, uint64_t reg, int64_t offset)
{
	program->row.cfa = (struct column){
		.kind = COLUMN_IS_REGISTER, .reg = reg > UINT_MAX ? UINT_MAX : reg,
		.offset = offset,
	};
}

static void op_def_cfa(struct program *program)
{
	uint64_t reg = read_uleb(program);

	program_set_cfa(program, reg, (int64_t)read_uleb(program));
}

static void op_def_cfa_sf(struct program *program)
{
	uint64_t reg = read_uleb(program);

	program_set_cfa(program, reg, factored(program, cursor_sleb(&program->code)));
}

/*
 * DW_CFA_def_cfa_register and DW_CFA_def_cfa_offset change one part of the CFA, which must be a
 * register and an offset.
 */
static void op_def_cfa_register(struct program *program)
{
	program->is_wrong |= program->row.cfa.kind != COLUMN_IS_REGISTER;
	program_set_cfa(program, read_uleb(program), program->row.cfa.offset);
}

static void set_cfa_offset(struct program *program, int64_t offset)
{
	program->is_wrong |= program->row.cfa.kind != COLUMN_IS_REGISTER;
	program->row.cfa.offset = offset;
}

static void op_def_cfa_offset(struct program *program)
{
	set_cfa_offset(program, (int64_t)read_uleb(program));
}

static void op_def_cfa_offset_sf(struct program *program)
{
	set_cfa_offset(program, factored(program, cursor_sleb(&program->code)));
}

static void op_def_cfa_expression(struct program *program)
{
	program->row.cfa = (struct column){
		.kind = COLUMN_IS_EXPRESSION, .expression = read_expression(program),
	};
}

static void op_args_size(struct program *program)
{
	read_uleb(program);
}

/* DW_CFA_AARCH64_negate_ra_state, whose number is another machine's: the return address is signed from here on, or no more. */
static void op_negate_ra_state(struct program *program)
{
	program->is_wrong |= !program->machine->has_link;
}

static void (*const operation[0x40])(struct program *program) = {
	[DW_CFA_nop] = op_nop,
	[DW_CFA_set_loc] = op_set_loc,
	[DW_CFA_advance_loc1] = op_advance1,
	[DW_CFA_advance_loc2] = op_advance2,
	[DW_CFA_advance_loc4] = op_advance4,
	[DW_CFA_offset_extended] = op_offset_extended,
	[DW_CFA_offset_extended_sf] = op_offset_extended_sf,
	[DW_CFA_GNU_negative_offset_extended] = op_negative_offset,
	[DW_CFA_restore_extended] = op_restore_extended,
	[DW_CFA_undefined] = op_undefined,
	[DW_CFA_same_value] = op_same_value,
	[DW_CFA_register] = op_other,
	[DW_CFA_val_offset] = op_val_offset,
	[DW_CFA_val_offset_sf] = op_other,
	[DW_CFA_val_expression] = op_other_expression,
	[DW_CFA_expression] = op_expression,
	[DW_CFA_remember_state] = op_remember_state,
	[DW_CFA_restore_state] = op_restore_state,
	[DW_CFA_def_cfa] = op_def_cfa,
	[DW_CFA_def_cfa_sf] = op_def_cfa_sf,
	[DW_CFA_def_cfa_register] = op_def_cfa_register,
	[DW_CFA_def_cfa_offset] = op_def_cfa_offset,
	[DW_CFA_def_cfa_offset_sf] = op_def_cfa_offset_sf,
	[DW_CFA_def_cfa_expression] = op_def_cfa_expression,
	[DW_CFA_GNU_window_save] = op_negate_ra_state,
	[DW_CFA_GNU_args_size] = op_args_size,
};

/* ---- running ---- */

#define LOW_BITS 0x3f /* the operand of the three instructions that keep it in their first byte */

static void run_one(struct program *program)
{
	uint8_t op = cursor_u8(&program->code), low = op & LOW_BITS;

	switch (op & ~LOW_BITS) {
	case DW_CFA_advance_loc:
		advance_location(program, low);
		break;
	case DW_CFA_offset:
		is_saved_at(column_of(program, &program->row, low),
			    factored(program, (int64_t)read_uleb(program)));
		break;
	case DW_CFA_restore:
		*column_of(program, &program->row, low) =
			*column_of(program, &program->initial, low);
		break;
	default:
		if (operation[low])
			operation[low](program);
		else
			program->is_wrong = true;
	}
	program->is_wrong |= program->code.is_cut;
}

void program_start(struct program *program, const struct cie *cie)
{
	program->cie = cie;
	program->code = cie->program;
	program->row = program->initial = (struct cfi_row){ 0 };
	program->remembered_nr = 0;
	program->address = 0;
	program->is_wrong = cursor_left(&cie->program) > CIE_PROGRAM_MAX;
	while (cursor_left(&program->code) && !program->is_wrong)
		run_one(program);
	program->is_cie_wrong = program->is_wrong || program->address;
	program->initial = program->row;
}

static void program_begin_fde(struct program *program, const struct fde *fde)
{
	program->code = (struct cursor){ fde->program, fde->program + fde->program_nr };
	program->row = program->initial;
	program->remembered_nr = 0;
	program->address = fde->start;
	program->is_wrong = program->is_cie_wrong;
}

int program_run(struct program *program, const struct fde *fde, uint64_t until, program_row_fn add,
		void *context)
{
	uint64_t from = fde->start;
	int err;

	program_begin_fde(program, fde);
	while (cursor_left(&program->code) && !program->is_wrong) {
		run_one(program);
		if (program->address == from || program->is_wrong)
			continue;
		err = add(context, program, from);
		if (err || program->address >= until)
			return err;
		from = program->address;
	}
	return add(context, program, from);
}
