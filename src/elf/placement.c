// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/placement.h"

#include <errno.h>
#include <string.h>

#include "elf/machine.h"

#define CODE_MAX (64u << 10)

/* A function's code and the instruction that was read last. */
struct code {
	struct insn_reader reader;
	struct insn insn;
	const uint8_t *byte;
	size_t size;
	uint64_t address;
	uint16_t precious; /* what must be as it was when the call was made */
};

static bool code__decode(struct code *code, size_t at)
{
	return code->reader.machine->read(&code->reader, code->byte + at, code->size - at, code->address + at, &code->insn);
}

/*
 * Whether a branch anywhere in the function lands, or may land, after the entry and not after the
 * site. Jump tables are not read, so a jump through a table may have a case that begins there.
 * After bytes that do not decode, the search tries every offset, since it is out of step with the
 * code.
 */
static bool has_branch_into(struct code *code, size_t site)
{
	const uint32_t step = code->reader.machine->step;
	bool in_step = true;

	for (size_t at = 0; at < code->size;) {
		if (!code__decode(code, at)) {
			in_step = false;
			at += step;
			continue;
		}
		switch (code->insn.flow) {
		case FLOW_JUMP:
		case FLOW_BRANCH:
		case FLOW_CALL:
			if (code->insn.target - code->address - 1 < site)
				return true;
			break;
		case FLOW_JUMP_OFFSETS:
		case FLOW_JUMP_ADDRESSES:
		case FLOW_JUMP_ANYWHERE:
			if (in_step)
				return true;
			break;
		default:
			break;
		}
		at += in_step ? code->insn.bytes : step;
	}
	return false;
}

static void placement__set(struct placement *placement, size_t offset, enum placement_why why, const struct code *code)
{
	*placement = (struct placement){ .offset = offset, .why = why };
	if (code)
		code->reader.machine->text(&code->reader, &code->insn, placement->instruction);
}

/*
 * Follows the line from the entry to the first emulated instruction. Its offset is then in *at, and
 * the instruction in code->insn. PLACEMENT_EMULATED, or the reason why the line has no such instruction.
 * A store ends the line, too: an allocator may publish a block by a plain store, and the probe of
 * free() must come before that.
 */
static enum placement_why find_emulated_insn(struct code *code, size_t *at)
{
	for (*at = 0; *at < code->size; *at += code->insn.bytes) {
		if (!code__decode(code, *at))
			return PLACEMENT_NOT_DECODED;
		if (code->insn.is_emulated)
			return PLACEMENT_EMULATED;
		if (code->insn.changes & code->precious)
			break;
	}
	return code->size ? PLACEMENT_NONE_IN_REACH : PLACEMENT_NOT_DECODED;
}

/*
 * Places the probe at the entry. If nops of five bytes are there, the probe goes after them, unless
 * a branch leads back to that place.
 */
static void stay(struct code *code, enum placement_why why, struct placement *ret)
{
	size_t at = 0;

	while (code__decode(code, at) && code->insn.is_long_nop)
		at += code->insn.bytes;
	if (at && (code->size == CODE_MAX || has_branch_into(code, at) || !code__decode(code, at)))
		at = 0;
	placement__set(ret, at, at ? PLACEMENT_BEHIND_NOP : why, code__decode(code, at) ? code : NULL);
}

static void find_placement(struct code *code, struct placement *ret)
{
	struct placement found;
	enum placement_why why;
	size_t at;

	why = find_emulated_insn(code, &at);
	if (why == PLACEMENT_EMULATED)
		placement__set(&found, at, why, code);
	if (why == PLACEMENT_EMULATED && at) {
		if (code->size == CODE_MAX) /* cut off: the targets of branches in the rest are not known */
			why = PLACEMENT_NONE_IN_REACH;
		else if (has_branch_into(code, at))
			why = PLACEMENT_BRANCH_INTO;
	}
	if (why == PLACEMENT_EMULATED)
		*ret = found;
	else
		stay(code, why, ret);
}

static uint16_t precious_of(const struct placement_function *function)
{
	uint16_t arguments = function->argument_nr ? (1u << function->argument_nr) - 1 : CHANGES_ARGUMENTS;

	return arguments | CHANGES_MORE | (function->stack_may_move ? 0 : CHANGES_STACK | CHANGES_LINK);
}

int placement_find(const struct placement_function *function, struct placement *ret)
{
	struct code code = {
		.byte = function->code,
		.size = function->size < CODE_MAX ? function->size : CODE_MAX,
		.address = function->address,
		.precious = precious_of(function),
	};
	int err = insn_reader__open(&code.reader, function->elf_machine);

	placement__set(ret, 0, PLACEMENT_NOT_DECODED, NULL);
	if (!err)
		find_placement(&code, ret);
	insn_reader__close(&code.reader);
	return err == -ENOTSUP ? 0 : err;
}
