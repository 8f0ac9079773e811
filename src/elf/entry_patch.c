// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/entry_patch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "elf/allocators.h"
#include "elf/elf_object_private.h"
#include "elf/x86_instructions.h"
#include "elf/known_functions.h"
#include "shared/call_types.h"

/* Moves the instructions of struct entry_patch, and checks what another process says of them. */

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

#define PAGE_BYTES 4096
#define BODY_MAX (64u << 10) /* of a function's code that is searched for branches */
#define CHUNK_BYTES (1u << 20)
#define ENDBR64 "\xf3\x0f\x1e\xfa"

struct patching {
	struct elf_object *elf;
	csh capstone;
	cs_insn *insn; /* the one decoded last */
	struct entry_patches *patches;
};

/* A function's code. */
struct body {
	const uint8_t *byte;
	size_t size;
	uint64_t vaddr;
};

static bool decode_entry_insn(struct patching *patching, const struct body *body, size_t at)
{
	const uint8_t *byte = body->byte + at;
	size_t left = body->size - at;
	uint64_t address = body->vaddr + at;

	return cs_disasm_iter(patching->capstone, &byte, &left, &address, patching->insn);
}

/* ---- the instructions that move ---- */

static bool has_rip_operand(const cs_insn *insn)
{
	const cs_x86 *x86 = &insn->detail->x86;

	for (size_t i = 0; i < x86->op_count; i++)
		if (x86->operands[i].type == X86_OP_MEM && x86->operands[i].mem.base == X86_REG_RIP)
			return true;
	return false;
}

static bool is_jmp(const cs_insn *insn)
{
	return (insn->size == 2 && insn->bytes[0] == 0xeb) || (insn->size == 5 && insn->bytes[0] == 0xe9);
}

/* Fills *ret. False: the instruction cannot move. */
static bool describe_insn(const cs_insn *insn, struct entry_insn *ret)
{
	static const unsigned int immovable[] = { X86_GRP_CALL, X86_GRP_RET, X86_GRP_INT, X86_GRP_IRET };
	uint8_t at;

	*ret = (struct entry_insn){ .size = insn->size, .kind = ENTRY_COPY };
	for (size_t i = 0; i < ARRAY_SIZE(immovable); i++)
		if (insn_has_group(insn, immovable[i]))
			return false;
	if (insn_is_jcc(insn) || is_jmp(insn)) {
		ret->kind = is_jmp(insn) ? ENTRY_JMP : ENTRY_JCC;
		ret->displacement_bytes = insn->size == 2 ? 1 : 4;
		ret->at = insn->size - ret->displacement_bytes;
		return true;
	}
	if (insn_has_group(insn, X86_GRP_JUMP) || insn_has_group(insn, X86_GRP_BRANCH_RELATIVE) || insn->bytes[0] == 0xcc ||
	    insn->id == X86_INS_SYSCALL)
		return false;
	if (!has_rip_operand(insn))
		return true;
	at = insn->detail->x86.encoding.disp_offset;
	*ret = (struct entry_insn){ insn->size, ENTRY_RIP, at, 4 };
	return at && at + 4 <= insn->size;
}

static void set_fault(struct entry_patch *patch, const char *what, const cs_insn *insn)
{
	if (*patch->fault)
		return;
	if (insn)
		snprintf(patch->fault, sizeof(patch->fault), "%s: %.15s %.40s", what, insn->mnemonic, insn->op_str);
	else
		snprintf(patch->fault, sizeof(patch->fault), "%s", what);
}

static void describe_entry(struct patching *patching, const struct body *body, struct entry_patch *patch)
{
	size_t at = 0;

	while (at < ENTRY_JUMP_BYTES && patch->insn_nr < ENTRY_INSNS_MAX) {
		struct entry_insn *insn = &patch->insn[patch->insn_nr];

		if (at >= body->size || !decode_entry_insn(patching, body, at)) {
			set_fault(patch, at >= body->size ? "it is too short" : "its code cannot be decoded", NULL);
			return;
		}
		at += patching->insn->size;
		if (!describe_insn(patching->insn, insn) || (insn->kind == ENTRY_JMP && at < ENTRY_JUMP_BYTES)) {
			set_fault(patch, "an instruction at its entry cannot be moved", patching->insn);
			return;
		}
		patch->insn_nr++;
	}
	memcpy(patch->code, body->byte, at);
}

/* ---- branches ---- */

static void note_callee(struct entry_patch *patch, const struct allocator_function *callee)
{
	if (shape_is_mapping(callee->shape))
		return;
	patch->calls_giver |= shape_gives(callee->shape);
	patch->calls_taker |= shape_takes(callee->shape);
}

/* `jmp *slot(%rip)`, as in a PLT: the name of the function that the loader writes to the slot, or NULL. */
static char *name_behind_slot(const struct elf_object *elf, uint64_t vaddr)
{
	uint8_t code[11] = {};
	size_t bytes = elf_object__read_at(elf, vaddr, code, sizeof(code)), at = 0;
	uint64_t resolver;
	int32_t distance;
	char *name = NULL;

	at += bytes > 4 && !memcmp(code, ENDBR64, 4) ? 4 : 0;
	at += code[at] == 0xf2;
	if (at + 6 > bytes || code[at] != 0xff || code[at + 1] != 0x25)
		return NULL;
	memcpy(&distance, code + at + 2, sizeof(distance));
	return elf_object__slot_function(elf, vaddr + at + 6 + distance, &name, &resolver) ? NULL : name;
}

static void look_at_callee(const struct patching *patching, uint64_t target, struct entry_patch *patch)
{
	char *name;

	for (uint64_t i = 0; i < patching->patches->nr; i++) {
		const struct entry_patch *callee = &patching->patches->patch[i];

		if (target == callee->vaddr || target == callee->vaddr - callee->skipped)
			note_callee(patch, &allocator_functions[callee->name]);
	}
	name = name_behind_slot(patching->elf, target);
	for (size_t i = 0; name && i < allocator_function_nr; i++)
		if (!strcmp(name, allocator_functions[i].name)) {
			note_callee(patch, &allocator_functions[i]);
			patch->passes_on |= shape_gives(allocator_functions[i].shape) &&
					    !shape_is_mapping(allocator_functions[i].shape);
		}
	free(name);
}

/* A jump through a table may lead anywhere in the function. */
static bool jumps_by_table(const cs_insn *insn)
{
	const cs_x86_op *to = &insn->detail->x86.operands[0];

	return insn->id == X86_INS_JMP && insn->detail->x86.op_count == 1 &&
	       (to->type == X86_OP_REG || (to->type == X86_OP_MEM && to->mem.index != X86_REG_INVALID));
}

/* Looks at all branches of the function itself. */
static void look_at_branches(struct patching *patching, const struct body *body, struct entry_patch *patch)
{
	size_t moved = entry_patch_moved_bytes(patch);
	const cs_x86 *x86 = &patching->insn->detail->x86;

	for (size_t at = 0; at < body->size;) {
		bool is_call;
		uint64_t target;

		if (!decode_entry_insn(patching, body, at)) {
			at++; /* data, or padding */
			continue;
		}
		at += patching->insn->size;
		if (jumps_by_table(patching->insn))
			set_fault(patch, "it jumps by a table", patching->insn);
		is_call = insn_has_group(patching->insn, X86_GRP_CALL);
		if (!is_call && !insn_has_group(patching->insn, X86_GRP_JUMP))
			continue;
		target = x86->op_count == 1 && x86->operands[0].type == X86_OP_IMM ? x86->operands[0].imm : 0;
		patch->goes_out |= target - body->vaddr >= body->size;
		if (!target)
			continue;
		if (moved && target - body->vaddr - 1 < moved - 1)
			set_fault(patch, "a branch leads into its entry", patching->insn);
		if (target == body->vaddr || target - body->vaddr >= body->size)
			look_at_callee(patching, target, patch);
	}
}

/* Looks at whatever could be a long branch in a piece of the file: parts of a function may lie elsewhere. */
static void look_at_far_branches(struct entry_patches *patches, const uint8_t *code, size_t bytes, uint64_t vaddr)
{
	for (size_t at = 1; at + 4 <= bytes; at++) {
		int32_t distance;
		uint64_t target;

		if (code[at - 1] != 0xe9 && code[at - 1] != 0xe8 &&
		    ((code[at - 1] & 0xf0) != 0x80 || at < 2 || code[at - 2] != 0x0f))
			continue;
		memcpy(&distance, code + at, sizeof(distance));
		target = vaddr + at + 4 + distance;
		for (uint64_t i = 0; i < patches->nr; i++)
			if (patches->patch[i].insn_nr &&
			    target - patches->patch[i].vaddr - 1 < entry_patch_moved_bytes(&patches->patch[i]) - 1)
				set_fault(&patches->patch[i], "a branch of another function leads into its entry", NULL);
	}
}

static int search_segment(struct elf_object *elf, const GElf_Phdr *segment, struct entry_patches *patches)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);

	if (!chunk)
		return -ENOMEM;
	for (uint64_t at = 0; at + 6 < segment->p_filesz; at += CHUNK_BYTES - 6) {
		uint64_t left = segment->p_filesz - at;
		size_t bytes = elf_object__read_some(elf, segment->p_offset + at, chunk,
						     left < CHUNK_BYTES ? left : CHUNK_BYTES);

		look_at_far_branches(patches, chunk, bytes, segment->p_vaddr + at);
		if (bytes < CHUNK_BYTES)
			break;
	}
	free(chunk);
	return 0;
}

static int search_code(struct elf_object *elf, struct entry_patches *patches)
{
	GElf_Phdr segment;
	int err = 0;

	for (size_t i = 0; i < elf->segment_nr && !err; i++)
		if (gelf_getphdr(elf->elf, i, &segment) && segment.p_type == PT_LOAD && segment.p_flags & PF_X)
			err = search_segment(elf, &segment, patches);
	return err;
}

/* ---- the functions ---- */

static bool is_known_patch(const struct entry_patches *patches, uint64_t vaddr)
{
	for (uint64_t i = 0; i < patches->nr; i++)
		if (patches->patch[i].vaddr - patches->patch[i].skipped == vaddr)
			return true;
	return false;
}

static int read_body(const struct elf_object *elf, uint64_t vaddr, uint64_t offset, uint64_t size, struct body *ret)
{
	uint8_t *byte;

	*ret = (struct body){ .size = size < BODY_MAX ? size : BODY_MAX, .vaddr = vaddr };
	byte = malloc(ret->size + 1);
	if (!byte)
		return -ENOMEM;
	ret->size = elf_object__read_some(elf, offset, byte, ret->size);
	ret->byte = byte;
	return 0;
}

static int examine_function(struct patching *patching, struct entry_patch *patch, uint64_t size)
{
	struct body body;
	int err = read_body(patching->elf, patch->vaddr, patch->offset, size, &body);

	if (err)
		return err;
	describe_entry(patching, &body, patch);
	if (size > BODY_MAX)
		set_fault(patch, "it is too long", NULL);
	if (patch->vaddr % PAGE_BYTES > PAGE_BYTES - ENTRY_JUMP_BYTES) /* a jump is written at once */
		set_fault(patch, "its entry lies on two pages", NULL);
	look_at_branches(patching, &body, patch);
	free((void *)body.byte);
	return 0;
}

static void add_functions(struct patching *patching, const struct elf_function *found, size_t nr, uint64_t *size)
{
	struct entry_patches *patches = patching->patches;

	for (size_t i = 0; i < nr; i++) {
		struct entry_patch *patch = &patches->patch[patches->nr];
		uint8_t code[4] = {};

		if (shape_is_mapping(allocator_functions[found[i].name].shape) || is_known_patch(patches, found[i].vaddr) ||
		    patches->nr == ENTRY_PATCHES_MAX)
			continue;
		*patch = (struct entry_patch){ .vaddr = found[i].vaddr, .offset = found[i].offset, .name = found[i].name };
		size[patches->nr++] = found[i].size;
		if (found[i].is_ifunc)
			set_fault(patch, "its code is chosen when the program starts", NULL);
		elf_object__read_some(patching->elf, patch->offset, code, sizeof(code));
		if (memcmp(code, ENDBR64, sizeof(code)) || found[i].size < sizeof(code))
			continue;
		patch->skipped = sizeof(code);
		patch->vaddr += sizeof(code);
		patch->offset += sizeof(code);
		size[patches->nr - 1] -= sizeof(code);
	}
}

static int find_entries(struct patching *patching, struct reason *why)
{
	uint64_t size[ENTRY_PATCHES_MAX];
	struct known_functions known;
	int err = known_functions_find(patching->elf, NULL, &known);

	if (err)
		return reason_set(why, err, "%s", strerror(-err));
	add_functions(patching, known.function, known.function_nr, size);
	known_functions_release(&known);
	for (uint64_t i = 0; i < patching->patches->nr && !err; i++)
		if (!*patching->patches->patch[i].fault)
			err = examine_function(patching, &patching->patches->patch[i], size[i]);
	return err ?: search_code(patching->elf, patching->patches);
}

int entry_patches_read(int fd, struct entry_patches *ret, struct reason *why)
{
	struct patching patching = { .elf = elf_object__open(fd, why), .patches = ret };
	int err;

	*ret = (struct entry_patches){};
	if (!patching.elf)
		return -errno;
	if (elf_object__machine(patching.elf) != EM_X86_64) {
		elf_object__close(patching.elf);
		return reason_set(why, -ENOTSUP, "only x86-64 code can be moved");
	}
	ret->patch = calloc(ENTRY_PATCHES_MAX + 1, sizeof(*ret->patch));
	err = ret->patch ? decoder_open(&patching.capstone, &patching.insn) : -ENOMEM;
	if (!err) {
		err = find_entries(&patching, why);
		decoder_close(&patching.capstone, &patching.insn);
	}
	elf_object__close(patching.elf);
	if (err)
		entry_patches_release(ret);
	return err;
}
