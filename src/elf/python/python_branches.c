// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/python/python_branches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/python/python_code.h"

static int make_target_room(struct python_branches *branches, const struct python_code *code)
{
	if (branches->target)
		return 0;
	branches->target = calloc(code->size / 8 + 1, 1);
	if (!branches->target)
		return -ENOMEM;
	branches->start = code->start;
	branches->size = code->size;
	return 0;
}

static void note_target(struct python_branches *branches, uint64_t vaddr)
{
	uint64_t at = vaddr - branches->start;

	if (at < branches->size)
		branches->target[at / 8] |= 1 << at % 8;
}

int python_branches__note_short(struct python_branches *branches, const struct python_code *code)
{
	const cs_insn *insn = code->insn;
	int err = make_target_room(branches, code);

	if (!err && insn->size == 2 && ((insn->bytes[0] & 0xf0) == 0x70 || insn->bytes[0] == 0xeb))
		note_target(branches, insn->address + 2 + (int8_t)insn->bytes[1]);
	return err;
}

int python_branches__note_long(struct python_branches *branches, const struct python_code *code)
{
	int err = make_target_room(branches, code);

	for (size_t at = 1; !err && at + 5 <= code->size; at++) {
		bool is_jmp = code->byte[at] == 0xe9;
		bool is_jcc = code->byte[at - 1] == 0x0f && (code->byte[at] & 0xf0) == 0x80;
		int32_t distance;

		if (!is_jmp && !is_jcc)
			continue;
		memcpy(&distance, code->byte + at + 1, sizeof(distance));
		note_target(branches, code->start + at + 5 + distance);
	}
	return err;
}

void python_branches__release(struct python_branches *branches)
{
	free(branches->target);
	*branches = (struct python_branches){};
}

bool python_branches__lead_to(const struct python_branches *branches, uint64_t first, uint64_t last)
{
	for (uint64_t vaddr = first; vaddr <= last; vaddr++) {
		uint64_t at = vaddr - branches->start;

		if (at < branches->size && branches->target[at / 8] >> at % 8 & 1)
			return true;
	}
	return false;
}
