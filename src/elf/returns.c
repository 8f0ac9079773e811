// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/returns.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "elf/elf_object.h"
#include "base/reason.h"
#include "elf/instructions.h"

#if CS_API_MAJOR < 5
#define X86_INS_UD1 X86_INS_UD2B
#endif

#define INSN_BYTES_MAX 15
#define INSN_MAX 100000 /* instructions followed for one function; the same limit holds for switch tables */
#define SLOT_MAX 256	/* PLT slots looked up for one function: each costs a search of all symbols */
#define WINDOW_BYTES 4096
#define NEAR_BYTES 64

struct extent {
	uint64_t start, end; /* end 0: not known */
};

/* A summary of an instruction, needed after the next one has been decoded. */
struct earlier {
	unsigned int id;
	x86_reg to;
	bool is_table_load; /* it loads 4 bytes from a table, by an index in a register */
};

#define EARLIER_NR 4

struct finder {
	const struct code_source *source;
	struct returns *returns;
	struct reason *why;
	csh capstone;
	cs_insn *insn; /* the current instruction */

	uint8_t window[WINDOW_BYTES];
	uint64_t window_start;
	size_t window_bytes;

	struct idmap seen_ids;
	uint64_t *seen; /* every instruction that was followed */
	size_t seen_nr, seen_alloc;
	uint64_t *todo; /* targets of branches, still to be followed */
	size_t todo_nr, todo_alloc;

	struct extent extent; /* of the function that contains the current instruction */
	struct extent swept; /* the extent of the last follow_all() */
	size_t swept_nr, slot_nr;
	struct earlier earlier[EARLIER_NR]; /* instructions before it on the same line, the last one first */
};

static int refuse_function(struct finder *finder, const char *what, uint64_t vaddr)
{
	return reason_set(finder->why, -ENOTSUP, "%s at 0x%llx", what, (unsigned long long)vaddr);
}

/* ---- decoding ---- */

/* These instructions always fault. capstone does not know the length of those with operands. */
static bool is_undefined(const cs_insn *insn)
{
	return insn->id == X86_INS_UD0 || insn->id == X86_INS_UD1;
}

/*
 * On AMD's processors a near branch with a 16-bit prefix is a 16-bit branch. Intel's ignore the
 * prefix and read two bytes more. So the next instruction is not known.
 */
static bool is_ambiguous_insn(const cs_insn *insn)
{
	const uint8_t rex_w = 8;

	return insn->detail->x86.prefix[2] == 0x66 && !(insn->detail->x86.rex & rex_w) &&
	       (insn_has_group(insn, X86_GRP_JUMP) || insn_has_group(insn, X86_GRP_CALL) ||
		insn_has_group(insn, X86_GRP_BRANCH_RELATIVE));
}

static bool decode_insn(struct finder *finder, uint64_t vaddr)
{
	const struct code_source *source = finder->source;
	uint64_t at = vaddr - finder->window_start, address = vaddr;
	const uint8_t *byte;
	size_t left;

	if (at > finder->window_bytes || finder->window_bytes - at < INSN_BYTES_MAX) {
		finder->window_start = vaddr;
		finder->window_bytes = source->read(source->object, vaddr, finder->window,
						    WINDOW_BYTES);
		at = 0;
	}
	byte = finder->window + at;
	left = finder->window_bytes - at;
	return left && cs_disasm_iter(finder->capstone, &byte, &left, &address, finder->insn) &&
	       !is_ambiguous_insn(finder->insn);
}

static void find_extent(struct finder *finder, uint64_t vaddr)
{
	const struct code_source *source = finder->source;
	struct extent *extent = &finder->extent;

	if (extent->end && vaddr >= extent->start && vaddr < extent->end)
		return;
	if (!source->extent(source->object, vaddr, &extent->start, &extent->end))
		extent->end = 0;
}

static bool is_in_extent(const struct finder *finder, uint64_t vaddr)
{
	return finder->extent.end && vaddr >= finder->extent.start && vaddr < finder->extent.end;
}

/* ---- instructions that were seen ---- */

static bool is_seen(const struct finder *finder, uint64_t vaddr)
{
	return idmap_find_key(&finder->seen_ids, &vaddr, sizeof(vaddr), finder->seen, sizeof(vaddr)) != IDMAP_NONE;
}

static int mark_insn_seen(struct finder *finder, uint64_t vaddr)
{
	if (finder->seen_nr == INSN_MAX)
		return refuse_function(finder, "too much code", vaddr);
	return idmap_push(&finder->seen_ids, finder, seen, vaddr, vaddr);
}

static void remember_insn(struct finder *finder)
{
	const cs_insn *insn = finder->insn;
	const cs_x86 *x86 = &insn->detail->x86;
	struct earlier last = { .id = insn->id };

	if (x86->op_count && x86->operands[0].type == X86_OP_REG)
		last.to = x86->operands[0].reg;
	if (insn->id == X86_INS_MOVSXD && x86->op_count == 2 &&
	    x86->operands[1].type == X86_OP_MEM)
		last.is_table_load = x86->operands[1].mem.index != X86_REG_INVALID &&
				     x86->operands[1].mem.scale == 4;
	memmove(finder->earlier + 1, finder->earlier, sizeof(last) * (EARLIER_NR - 1));
	finder->earlier[0] = last;
}

/* ---- where an instruction leads ---- */

enum step {
	STEP_GO_ON,
	STEP_END, /* the next instruction is not reached from this one */
};

static bool is_direct(const cs_x86 *x86)
{
	return x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM;
}

static int finder_add_place(struct finder *finder, uint64_t vaddr, bool is_in_argument)
{
	struct return_place place = { vaddr, is_in_argument };

	return array_push(finder->returns, place, place);
}

/* Handles the instruction at `from`, which jumps out of the function, on a condition or always. */
static int follow_exit(struct finder *finder, enum exit_kind kind, uint64_t target, uint64_t from,
		       bool always)
{
	switch (kind) {
	case EXIT_FOLLOW:
		return array_push(finder, todo, target);
	case EXIT_PROBED:
		finder->returns->leads_to_probed = true;
		return 0;
	case EXIT_RETURNS_ARGUMENT:
		if (always)
			return finder_add_place(finder, from, true);
		return refuse_function(finder, "a jump on a condition to memset or the like", from);
	case EXIT_UNKNOWN:
		break;
	}
	return refuse_function(finder, "a jump to an address from a register or from memory", from);
}

static bool is_slot(const cs_insn *insn, uint64_t *ret_slot)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];

	if (insn->id != X86_INS_JMP || op->type != X86_OP_MEM || op->mem.base != X86_REG_RIP)
		return false;
	*ret_slot = insn->address + insn->size + op->mem.disp;
	return true;
}

/* Whether a PLT's code is there: jmp *slot(%rip), with or without an endbr64 before it. */
static bool is_plt_jump(struct finder *finder, uint64_t vaddr, uint64_t *ret_slot)
{
	if (!decode_insn(finder, vaddr))
		return false;
	if (finder->insn->id == X86_INS_ENDBR64 && !decode_insn(finder, vaddr + finder->insn->size))
		return false;
	return is_slot(finder->insn, ret_slot);
}

static enum exit_kind follow_slot(struct finder *finder, uint64_t slot, uint64_t *ret_target)
{
	const struct code_source *source = finder->source;

	return finder->slot_nr++ < SLOT_MAX ? source->slot(source->object, slot, ret_target) :
					      EXIT_UNKNOWN;
}

static int follow_target(struct finder *finder, bool always)
{
	const struct code_source *source = finder->source;
	uint64_t from = finder->insn->address, slot;
	uint64_t target = finder->insn->detail->x86.operands[0].imm;
	enum exit_kind kind = EXIT_FOLLOW;

	if (is_in_extent(finder, target))
		return array_push(finder, todo, target);
	if (source->returns_argument(source->object, target))
		kind = EXIT_RETURNS_ARGUMENT;
	else if (is_plt_jump(finder, target, &slot))
		kind = follow_slot(finder, slot, &target);
	return follow_exit(finder, kind, target, from, always);
}

/* movslq (table,index,4), a; add b, a; jmp *a: offsets from the table to places in the function. */
static bool is_offset_table(const struct finder *finder, x86_reg reg)
{
	const struct earlier *earlier = finder->earlier;
	int add = 0;

	while (add < EARLIER_NR && (earlier[add].id != X86_INS_ADD || earlier[add].to != reg))
		add++;
	for (int i = add + 1; i < EARLIER_NR; i++)
		if (earlier[i].is_table_load)
			return true;
	return false;
}

/*
 * jmp *table(,index,8): a table of addresses in the function; addresses of functions would be a
 * call.
 */
static bool is_address_table(const struct finder *finder, const x86_op_mem *mem)
{
	const struct code_source *source = finder->source;
	uint64_t first;

	return mem->base == X86_REG_INVALID && mem->index != X86_REG_INVALID && mem->scale == 8 &&
	       source->read(source->object, mem->disp, &first, sizeof(first)) == sizeof(first) &&
	       is_in_extent(finder, first) && first != finder->extent.start;
}

/* The table's size is not known, so every instruction of the function may be a target. */
static int follow_all(struct finder *finder)
{
	struct extent extent = finder->extent;
	int err = 0;

	if (finder->swept.start == extent.start && finder->swept.end == extent.end)
		return 0;
	finder->swept = extent;
	for (uint64_t at = extent.start; at < extent.end && !err; at += finder->insn->size) {
		if (finder->swept_nr++ == INSN_MAX)
			return refuse_function(finder, "too much code", at);
		if (!decode_insn(finder, at) || is_undefined(finder->insn))
			return refuse_function(finder, "data between the code of a switch", at);
		err = array_push(finder, todo, at);
	}
	return err;
}

static int follow_indirect(struct finder *finder)
{
	const cs_insn *insn = finder->insn;
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	uint64_t at = insn->address, slot, target = 0;
	enum exit_kind kind;
	bool is_table;

	if (is_slot(insn, &slot)) {
		kind = follow_slot(finder, slot, &target);
		return follow_exit(finder, kind, target, at, true);
	}
	is_table = op->type == X86_OP_REG ? is_offset_table(finder, op->reg) :
					    is_address_table(finder, &op->mem);
	if (is_table && is_in_extent(finder, at))
		return follow_all(finder);
	return follow_exit(finder, EXIT_UNKNOWN, 0, at, true);
}

/*
 * A call of the next few bytes only pushes an address, and the `ret` there is no return
 * (retpolines).
 */
static int check_call(struct finder *finder)
{
	const cs_insn *insn = finder->insn;
	uint64_t next = insn->address + insn->size, target;

	if (!is_direct(&insn->detail->x86))
		return 0;
	target = insn->detail->x86.operands[0].imm;
	if (target - next < NEAR_BYTES && (!finder->extent.end || is_in_extent(finder, target)))
		return refuse_function(finder, "a call that is no call", insn->address);
	return 0;
}

/* The caller sets *step to STEP_GO_ON. */
static int check_insn_step(struct finder *finder, enum step *step)
{
	const cs_insn *insn = finder->insn;

	switch (insn->id) {
	case X86_INS_RET:
		*step = STEP_END;
		return finder_add_place(finder, insn->address, false);
	case X86_INS_UD0:
	case X86_INS_UD1:
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_INT3:
		*step = STEP_END;
		return 0;
	case X86_INS_JMP:
		*step = STEP_END;
		return is_direct(&insn->detail->x86) ? follow_target(finder, true) :
						       follow_indirect(finder);
	case X86_INS_CALL:
		if (insn->address + insn->size == finder->extent.end)
			*step = STEP_END;
		return check_call(finder);
	case X86_INS_LJMP:
	case X86_INS_LCALL:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT:
		return refuse_function(finder, "a far jump or return", insn->address);
	}
	if (insn_has_group(insn, X86_GRP_JUMP) || insn_has_group(insn, X86_GRP_BRANCH_RELATIVE))
		return is_direct(&insn->detail->x86) ?
			       follow_target(finder, false) :
			       refuse_function(finder, "an unknown branch", insn->address);
	return 0;
}

static int follow_straight_line(struct finder *finder, uint64_t at)
{
	enum step step = STEP_GO_ON;
	int err = 0;

	memset(finder->earlier, 0, sizeof(finder->earlier));
	while (!err && step == STEP_GO_ON && !is_seen(finder, at)) {
		find_extent(finder, at);
		if (!decode_insn(finder, at))
			return refuse_function(finder, "bytes that are no known instruction", at);
		at += finder->insn->size;
		err = mark_insn_seen(finder, finder->insn->address);
		if (err)
			break;
		err = check_insn_step(finder, &step);
		if (step == STEP_GO_ON)
			remember_insn(finder);
	}
	return err;
}

static void sort_returns(struct returns *returns)
{
	struct return_place *place = returns->place;
	size_t kept = 0;

	if (returns->place_nr)
		qsort(place, returns->place_nr, sizeof(*place), array_by_number);
	for (size_t i = 0; i < returns->place_nr; i++)
		if (!kept || place[kept - 1].vaddr != place[i].vaddr)
			place[kept++] = place[i];
	returns->place_nr = kept;
}

static int find_returns(struct finder *finder, uint64_t entry)
{
	int err = array_push(finder, todo, entry);

	while (!err && finder->todo_nr)
		err = follow_straight_line(finder, finder->todo[--finder->todo_nr]);
	if (!err && !finder->returns->place_nr && !finder->returns->leads_to_probed)
		err = refuse_function(finder, "no return of the function that begins", entry);
	sort_returns(finder->returns);
	return err;
}

int returns_find(const struct code_source *source, uint64_t entry, struct returns *ret,
		 struct reason *why)
{
	struct finder *finder;
	int err = -ENOMEM;

	if (source->elf_machine != EM_X86_64)
		return reason_set(why, -ENOTSUP, "returns are found in x86-64 code only");
	finder = calloc(1, sizeof(*finder));
	if (!finder)
		return err;
	finder->source = source;
	finder->returns = ret;
	finder->why = why;
	if (!decoder_open(&finder->capstone, &finder->insn))
		err = find_returns(finder, entry);
	decoder_close(&finder->capstone, &finder->insn);
	idmap_release(&finder->seen_ids);
	free(finder->seen);
	free(finder->todo);
	free(finder);
	return err;
}

void returns_release(struct returns *returns)
{
	free(returns->place);
	memset(returns, 0, sizeof(*returns));
}
