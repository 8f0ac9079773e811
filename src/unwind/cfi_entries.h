/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_CFI_ENTRIES_H
#define ALLOCSNAP_UNWIND_CFI_ENTRIES_H

/*
 * .eh_frame and .debug_frame are lists of CIEs (properties that many functions share) and FDEs (one
 * function, or part of one, each). This lists the FDEs of an object by address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cursor.h"

/* Bytes of call frame information, and their address in the object. */
struct cfi_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t vaddr;
	bool is_debug_frame;
	bool ends_at_zero; /* size is only an upper bound */
};

struct cie {
	const struct cfi_section *section;
	const uint8_t *entry; /* where the entry begins */
	struct cursor program;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool has_augmentation; /* FDEs contain the length of their augmentation */
	bool is_signal;	       /* the caller was interrupted instead of calling */
	bool is_understood;
};

struct fde {
	uint64_t start, end; /* vaddr */
	uint32_t cie;
	uint32_t program_nr; /* bytes */
	const uint8_t *program;
};

struct entries {
	uint64_t text_start, text_end; /* set by the caller: FDEs outside are left out */
	struct cie *cie;
	size_t cie_nr, cie_alloc;
	struct fde *fde; /* sorted by start; at one address, FDEs of an earlier section come first */
	size_t fde_nr, fde_alloc;
	uint64_t outside;	 /* FDEs outside of the text: the linker dropped their code */
	uint64_t not_understood; /* CIEs, and FDEs in the text, in an unsupported form */
};

#define FDES_MAX (1u << 21) /* 18 times as many as libLLVM has */

/*
 * Adds the FDEs of a section, which must stay in memory. Malformed entries are counted and left
 * out. 0, -ENOMEM, or -E2BIG if there are more than FDES_MAX of either kind.
 */
int entries_add(struct entries *entries, const struct cfi_section *section);

/* Sorts the FDEs; called once, at the end. If several begin at one address, only the first is kept. */
void entries_sort(struct entries *entries);

/* Whether .eh_frame describes the code there. Of sorted entries. */
bool entries_are_sure(const struct entries *entries, uint64_t vaddr);

void entries_release(struct entries *entries);

/*
 * Reads an address in a section's own encoding (DW_EH_PE_…). False: an encoding that files do not
 * use.
 */
bool encoded_pointer(const struct cfi_section *section, struct cursor *cursor, uint8_t encoding,
		     uint64_t *ret);

#endif
