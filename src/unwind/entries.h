/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_ENTRIES_H
#define ALLOCSNAP_UNWIND_ENTRIES_H

/*
 * .eh_frame and .debug_frame are lists of CIEs (what many functions have in common) and FDEs (one
 * function, or part of one, each). This lists the FDEs of an object by address.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cursor.h"

/* Bytes of call frame information, and where in the object they lie. */
struct cfi_section {
	const uint8_t *bytes;
	size_t size;
	uint64_t vaddr;
	bool is_debug_frame;
	bool ends_at_zero; /* size is only an upper bound */
};

struct cie {
	const struct cfi_section *section;
	const uint8_t *entry; /* where it begins */
	struct cursor program;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding;
	bool has_augmentation; /* FDEs say how long their augmentation is */
	bool is_signal;	       /* the caller was interrupted, it has not called */
	bool is_understood;
};

struct fde {
	uint64_t start, end; /* vaddr */
	uint32_t cie;
	uint32_t program_nr; /* bytes */
	const uint8_t *program;
};

struct entries {
	uint64_t text_start, text_end; /* set first: FDEs outside are left out */
	struct cie *cie;
	size_t cie_nr, cie_alloc;
	struct fde *fde; /* by start; those of an earlier section first */
	size_t fde_nr, fde_alloc;
	uint64_t outside;	 /* FDEs outside of the text: of code that the linker threw away */
	uint64_t not_understood; /* CIEs, and FDEs in the text, of a form that we don't know */
};

#define FDES_MAX (1u << 21) /* 18 times what libLLVM has */

/*
 * Adds the FDEs of a section, which must stay. What makes no sense is counted and left
 * out. 0, -ENOMEM, or -E2BIG if there are more than FDES_MAX of either kind.
 */
int entries_add(struct entries *entries, const struct cfi_section *section);

/* Once, at last. Where several begin at one address, only the first stays. */
void entries_sort(struct entries *entries);

void entries_release(struct entries *entries);

/* An address in a section's own form (DW_EH_PE_…). False: of another kind than files have. */
bool encoded_pointer(const struct cfi_section *section, struct cursor *cursor, uint8_t encoding,
		     uint64_t *ret);

#endif
