/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_OBJECT_CFI_H
#define ALLOCSNAP_UNWIND_OBJECT_CFI_H

/* Finds an ELF object's code and its call frame information. */

#include <libelf.h>

#include "base/reason.h"
#include "unwind/cfi_entries.h"
#include "shared/unwind_types.h"

#define CFI_SECTIONS_MAX 2

struct object_cfi {
	uint64_t text_start, text_end; /* from the first executable segment to the end of the last one */
	uint32_t segment_nr;
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX];
	uint32_t section_nr;
	struct cfi_section section[CFI_SECTIONS_MAX]; /* an earlier section has priority */
	bool has_go; /* code of Go, which changes stacks (stack_rules.h) */
};

/*
 * Valid as long as elf is; there may be no sections. 0 or a negative errno as from
 * unwind_table__from_file().
 */
int object_cfi_find(Elf *elf, struct object_cfi *ret, struct reason *why);

#endif
