// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What .eh_frame says of a function's stack frame. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <stdlib.h>

#include "collect/elf_object_private.h"

/* DWARF register numbers of the frame pointer: rbp, x29. */
#define X86_64_FRAME_POINTER 6
#define AARCH64_FRAME_POINTER 29

static bool address_of(const struct elf_object *obj, uint64_t offset, uint64_t *ret_address)
{
	GElf_Phdr segment;

	for (size_t i = 0; i < obj->segment_nr; i++) {
		if (!gelf_getphdr(obj->elf, i, &segment) || segment.p_type != PT_LOAD ||
		    offset - segment.p_offset >= segment.p_filesz)
			continue;
		*ret_address = offset - segment.p_offset + segment.p_vaddr;
		return true;
	}
	return false;
}

/* The canonical frame address is a register plus a constant nearly everywhere. */
static bool is_based_on(Dwarf_Frame *frame, unsigned int reg)
{
	Dwarf_Op *op;
	size_t nr;

	if (dwarf_frame_cfa(frame, &op, &nr) || nr != 1)
		return false;
	if (op->atom == DW_OP_bregx)
		return op->number == reg;
	return op->atom == DW_OP_breg0 + reg;
}

bool elf_object__keeps_frame_pointer(struct elf_object *obj, uint64_t return_offset)
{
	unsigned int reg = obj->header.e_machine == EM_AARCH64 ? AARCH64_FRAME_POINTER :
								 X86_64_FRAME_POINTER;
	Dwarf_Frame *frame;
	uint64_t address;
	bool keeps;

	if (!obj->cfi_read)
		obj->cfi = dwarf_getcfi_elf(obj->elf);
	obj->cfi_read = true;
	if (!obj->cfi || !return_offset || !address_of(obj, return_offset - 1, &address) ||
	    dwarf_cfi_addrframe(obj->cfi, address, &frame))
		return true;
	keeps = is_based_on(frame, reg);
	free(frame);
	return keeps;
}
