// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bodies of allocator functions that a profile-guided build has copied to where they are called:
 *
 *	cmp $F, %rdx		or: lea F(%rip), %rcx; cmp %rcx, %rdx
 *	jne slow		◄── the place
 * slow:	mov %r14, %rsi
 *	call *%rdx
 *
 * The other branch still calls by the pointer. So it shows where the arguments are, in registers at the jump. A place is
 * only used if the jump is directly behind the comparison, the other branch leads straight to a call of the very pointer
 * that was compared, and no other branch of the file leads to the jump. Everything else is counted.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elf/python/python_code.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"
#include "elf/x86_registers.h"

#define FUNCTION_CODE_MAX (1u << 20)
#define COMPARE_TO_JUMP_MAX 8 /* instructions */
#define LEA_TO_COMPARE_MAX 12
#define SLOW_PATH_MAX 40

#define VALUE_OF(state, field) (&(state)->reg[offsetof(struct x86_registers, field) / 8])

struct callee {
	uint64_t vaddr;
	uint8_t domain, operation;
};

/* A comparison with a callee's address. */
struct comparison {
	uint64_t vaddr;
	struct callee callee;
	cs_x86_op pointer; /* what is compared with it */
	struct python_site site; /* what became of it; vaddr 0: not understood */
	bool may_call; /* its function calls by pointers */
};

struct inlined {
	struct python_search *search;
	struct callee callee[PYTHON_DOMAIN_NR * PYTHON_OPERATION_NR];
	size_t callee_nr;
	struct comparison *found;
	size_t found_nr, found_alloc;
	struct python_branches branches;
};

/* ---- comparisons ---- */

/* mem has mostly the same functions as obj: obj comes first. */
static void list_callees(struct inlined *inlined)
{
	static const uint8_t order[] = { PYTHON_OBJECT, PYTHON_MEM, PYTHON_RAW };
	const struct python_info *info = inlined->search->info;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		for (uint8_t k = 0; k < PYTHON_OPERATION_NR; k++) {
			uint64_t vaddr = info->function[order[i]][k];
			size_t same = 0;

			while (same < inlined->callee_nr && inlined->callee[same].vaddr != vaddr)
				same++;
			if (same == inlined->callee_nr)
				inlined->callee[inlined->callee_nr++] = (struct callee){ vaddr, order[i], k };
		}
}

static const struct callee *callee_at(const struct inlined *inlined, uint64_t vaddr)
{
	for (size_t i = 0; i < inlined->callee_nr; i++)
		if (inlined->callee[i].vaddr == vaddr)
			return &inlined->callee[i];
	return NULL;
}

static int add_comparison(struct inlined *inlined, const struct callee *callee, const cs_x86_op *pointer)
{
	const struct comparison comparison = {
		.vaddr = inlined->search->code.insn->address, .callee = *callee, .pointer = *pointer,
	};

	return inlined->found_nr == PYTHON_SITES_MAX ? -E2BIG : array_push(inlined, found, comparison);
}

/* From `lea F(%rip), reg` to the comparison with that register. */
static int follow_lea(struct inlined *inlined, const struct callee *callee)
{
	struct python_code *code = &inlined->search->code;
	x86_reg reg = code->insn->detail->x86.operands[0].reg;

	for (int i = 0; i < LEA_TO_COMPARE_MAX; i++) {
		const cs_x86_op *op = code->insn->detail->x86.operands;

		if (!python_code__decode(code, code->insn->address + code->insn->size) || python_code__leaves(code))
			return 0;
		if (code->insn->id == X86_INS_CMP && op[0].type == X86_OP_REG && op[0].reg == reg)
			return add_comparison(inlined, callee, &op[1]);
		if (code->insn->id == X86_INS_CMP && op[1].type == X86_OP_REG && op[1].reg == reg)
			return add_comparison(inlined, callee, &op[0]);
		if (code->insn->detail->x86.op_count && op[0].type == X86_OP_REG && op[0].reg == reg)
			return 0;
	}
	return 0;
}

static int look_at_insn(struct inlined *inlined)
{
	const cs_insn *insn = inlined->search->code.insn;
	const cs_x86_op *op = insn->detail->x86.operands;
	const struct callee *callee;

	if (insn->detail->x86.op_count != 2)
		return 0;
	if (insn->id == X86_INS_CMP && op[1].type == X86_OP_IMM && inlined->search->code.is_fixed && op[0].size == 8) {
		callee = callee_at(inlined, op[1].imm);
		return callee ? add_comparison(inlined, callee, &op[0]) : 0;
	}
	if (insn->id == X86_INS_LEA && op[1].mem.base == X86_REG_RIP) {
		callee = callee_at(inlined, insn->address + insn->size + op[1].mem.disp);
		return callee ? follow_lea(inlined, callee) : 0;
	}
	return 0;
}

/*
 * Looks at each instruction of a function, so that it is certain where instructions begin. A function that calls nothing
 * by a pointer compares for another purpose (CPython finds the names of its allocators so).
 */
static int look_at_function(struct inlined *inlined, uint64_t start, uint64_t end)
{
	struct python_code *code = &inlined->search->code;
	size_t first = inlined->found_nr;
	bool may_call = false;
	int err = 0;

	if (end - start > FUNCTION_CODE_MAX)
		return 0;
	for (uint64_t at = start, next; at < end && !err && python_code__decode(code, at); at = next) {
		next = at + code->insn->size;
		may_call |= insn_calls_pointer(code->insn);
		err = python_branches__note_short(&inlined->branches, code) ?: look_at_insn(inlined);
	}
	for (size_t i = first; i < inlined->found_nr; i++)
		inlined->found[i].may_call = may_call;
	return err;
}

/* Whether the four bytes there may be a callee's address, or its distance. */
static bool may_name_callee(const struct inlined *inlined, size_t at)
{
	const struct python_code *code = &inlined->search->code;
	int32_t number;

	memcpy(&number, code->byte + at, sizeof(number));
	if (code->is_fixed && number > 0 && callee_at(inlined, number))
		return true;
	return at > 2 && code->byte[at - 2] == 0x8d && (code->byte[at - 1] & 0xc7) == 5 &&
	       callee_at(inlined, code->start + at + sizeof(number) + number);
}

static int find_comparisons(struct inlined *inlined)
{
	const struct python_code *code = &inlined->search->code;
	int err = 0;

	for (size_t at = 0; at + 4 <= code->size && !err; at++) {
		uint64_t start, end;

		if (!may_name_callee(inlined, at) || !python_code__extent(code, code->start + at, &start, &end))
			continue;
		err = look_at_function(inlined, start, end);
		at = end - code->start - 1;
	}
	return err;
}

/* ---- one place ---- */

/* From the comparison to its jump; between them nothing may change flags, or the pointer. */
static bool find_jump(struct python_code *code, const struct comparison *comparison, uint64_t *ret_jump)
{
	for (int i = 0; i < COMPARE_TO_JUMP_MAX; i++) {
		const cs_insn *insn = code->insn;
		const cs_x86_op *to = insn->detail->x86.operands;

		if (!python_code__decode(code, insn->address + insn->size))
			return false;
		if (insn->id == X86_INS_JE || insn->id == X86_INS_JNE) {
			*ret_jump = insn->address;
			return insn_is_jcc(code->insn);
		}
		if (insn->id != X86_INS_MOV && insn->id != X86_INS_LEA && insn->id != X86_INS_MOVABS &&
		     insn->id != X86_INS_MOVZX && insn->id != X86_INS_MOVSXD && insn->id != X86_INS_NOP)
			return false;
		if (to->type == X86_OP_REG && comparison->pointer.type == X86_OP_REG && to->reg == comparison->pointer.reg)
			return false;
	}
	return false;
}

/* From the jump along the branch that is not taken, to the call by a pointer. */
static bool follow_slow_path(struct python_state *state, uint64_t at)
{
	struct python_code *code = state->code;

	for (int i = 0; i < SLOW_PATH_MAX; i++) {
		uint64_t target;

		if (!python_code__decode(code, at))
			return false;
		if (python_code__is_jump(code, &target)) {
			at = target;
			continue;
		}
		if (code->insn->id == X86_INS_CALL || code->insn->id == X86_INS_JMP)
			return code->insn->detail->x86.operands[0].type != X86_OP_IMM;
		if (python_code__leaves(code) || !python_state_step(state))
			return false;
		at += code->insn->size;
	}
	return false;
}

static bool take_arguments(const struct python_state *state, struct python_site *site)
{
	const struct python_value *first = VALUE_OF(state, rsi), *second = VALUE_OF(state, rdx);
	static const struct argument_source none = NO_ARGUMENT;

	site->size = site->count = site->pointer = none;
	switch (site->operation) {
	case PYTHON_MALLOC:
		return python_value_source(state, first, &site->size);
	case PYTHON_CALLOC:
		return python_value_source(state, first, &site->count) && python_value_source(state, second, &site->size);
	case PYTHON_REALLOC:
		return python_value_source(state, first, &site->pointer) && python_value_source(state, second, &site->size);
	default:
		return python_value_source(state, first, &site->pointer);
	}
}

static void understand(struct inlined *inlined, struct comparison *comparison)
{
	struct python_code *code = &inlined->search->code;
	struct python_site site = { .operation = comparison->callee.operation, .domain = comparison->callee.domain,
				    .asks_zf = 1 };
	struct python_value compared, called;
	struct python_state state;
	uint64_t other, behind;

	if (!python_code__decode(code, comparison->vaddr))
		return;
	behind = comparison->vaddr + code->insn->size;
	if (!find_jump(code, comparison, &site.vaddr))
		return;
	other = code->insn->id == X86_INS_JNE ? (uint64_t)code->insn->detail->x86.operands[0].imm :
						code->insn->address + code->insn->size;
	python_state_begin(&state, code, false);
	if (!python_code__decode(code, comparison->vaddr))
		return;
	compared = python_state_operand(&state, &comparison->pointer);
	if (!follow_slow_path(&state, other))
		return;
	called = python_state_operand(&state, &code->insn->detail->x86.operands[0]);
	if (python_values_equal(&compared, &called) && take_arguments(&state, &site) &&
	    !python_branches__lead_to(&inlined->branches, behind, site.vaddr))
		comparison->site = site;
}

int python_find_inlined(struct python_search *search)
{
	struct inlined inlined = { .search = search };
	int err;

	list_callees(&inlined);
	err = find_comparisons(&inlined) ?: python_branches__note_long(&inlined.branches, &search->code);
	for (size_t i = 0; !err && i < inlined.found_nr; i++) {
		understand(&inlined, &inlined.found[i]);
		if (inlined.found[i].site.vaddr)
			err = python_add_site(search, &inlined.found[i].site);
		else if (python_wants_call(search, inlined.found[i].callee.domain))
			search->info->unknown_nr += inlined.found[i].may_call;
	}
	free(inlined.found);
	python_branches__release(&inlined.branches);
	return err;
}
