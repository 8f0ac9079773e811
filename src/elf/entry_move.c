// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Moves the instructions of struct entry_patch, and checks what another process says of them. */
#include <stdlib.h>
#include <string.h>

#include "elf/allocators.h"
#include "elf/entry_patch.h"

#define JMP 0xe9

static int64_t read_displacement(const uint8_t *code, const struct entry_insn *insn)
{
	int32_t wide;

	if (insn->displacement_bytes == 1)
		return (int8_t)code[insn->at];
	memcpy(&wide, code + insn->at, sizeof(wide));
	return wide;
}

static bool put_displacement(uint8_t *to, uint64_t distance)
{
	int32_t narrow = (int64_t)distance;

	memcpy(to, &narrow, sizeof(narrow));
	return narrow == (int64_t)distance;
}

/* Writes one instruction at address `to`; `from` is where it was. Returns its bytes, or 0. */
static size_t move_insn(const uint8_t *code, const struct entry_insn *insn, uint64_t from, uint64_t to, uint8_t *out)
{
	uint64_t target;

	if (insn->kind == ENTRY_COPY || insn->kind == ENTRY_RIP)
		memcpy(out, code, insn->size);
	if (insn->kind == ENTRY_COPY)
		return insn->size;
	target = from + insn->size + read_displacement(code, insn);
	if (insn->kind == ENTRY_RIP)
		return put_displacement(out + insn->at, target - (to + insn->size)) ? insn->size : 0;
	if (insn->kind == ENTRY_JMP) {
		out[0] = JMP;
		return put_displacement(out + 1, target - (to + 5)) ? 5 : 0;
	}
	out[0] = 0x0f;
	out[1] = 0x80 | (code[insn->displacement_bytes == 1 ? 0 : 1] & 0xf);
	return put_displacement(out + 2, target - (to + 6)) ? 6 : 0;
}

size_t entry_patch_moved_bytes(const struct entry_patch *patch)
{
	size_t bytes = 0;

	for (uint32_t i = 0; i < patch->insn_nr; i++)
		bytes += patch->insn[i].size;
	return bytes;
}

size_t entry_patch_move(const struct entry_patch *patch, uint64_t from, uint64_t to, uint8_t code[ENTRY_MOVED_ROOM],
			uint8_t ret_at[ENTRY_INSNS_MAX])
{
	size_t at = 0, out = 0;

	for (uint32_t i = 0; i < patch->insn_nr; i++) {
		size_t bytes = move_insn(patch->code + at, &patch->insn[i], from + at, to + out, code + out);

		if (!bytes)
			return 0;
		ret_at[i] = out;
		at += patch->insn[i].size;
		out += bytes;
	}
	code[out] = JMP;
	return put_displacement(code + out + 1, from + at - (to + out + 5)) ? out + 5 : 0;
}

void entry_patches_release(struct entry_patches *patches)
{
	free(patches->patch);
	*patches = (struct entry_patches){};
}

/* ---- checks of data from another process ---- */

static bool is_sound_insn(const struct entry_insn *insn)
{
	if (!insn->size || insn->size > 15 || insn->kind >= ENTRY_INSN_KIND_NR)
		return false;
	if (insn->kind == ENTRY_COPY)
		return true;
	return (insn->displacement_bytes == 4 || (insn->displacement_bytes == 1 && insn->kind != ENTRY_RIP)) &&
	       insn->at && insn->at + insn->displacement_bytes <= insn->size;
}

static bool is_sound_patch(const struct entry_patch *patch, uint64_t file_bytes)
{
	size_t bytes = 0;

	if (patch->name >= allocator_function_nr || patch->insn_nr > ENTRY_INSNS_MAX || patch->skipped > 4 ||
	    patch->calls_giver > 1 || patch->calls_taker > 1 || patch->passes_on > 1 || patch->goes_out > 1 ||
	    patch->offset > file_bytes || !memchr(patch->fault, '\0', sizeof(patch->fault)))
		return false;
	for (uint32_t i = 0; i < patch->insn_nr; i++) {
		if (!is_sound_insn(&patch->insn[i]))
			return false;
		bytes += patch->insn[i].size;
	}
	return *patch->fault || (bytes >= ENTRY_JUMP_BYTES && bytes <= ENTRY_MOVED_MAX &&
				 bytes <= file_bytes - patch->offset);
}

bool entry_patches_are_sound(const struct entry_patches *patches, uint64_t file_bytes)
{
	if (patches->nr > ENTRY_PATCHES_MAX)
		return false;
	for (uint64_t i = 0; i < patches->nr; i++)
		if (!is_sound_patch(&patches->patch[i], file_bytes))
			return false;
	return true;
}
