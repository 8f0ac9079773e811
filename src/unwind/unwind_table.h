/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_TABLE_H
#define ALLOCSNAP_UNWIND_TABLE_H

/*
 * The unwind table of an object (bpf/shared/unwind_types.h), compiled from its call frame information:
 * .eh_frame, without section headers what PT_GNU_EH_FRAME leads to, and .debug_frame for the
 * functions that the first says nothing of. x86-64 programs and libraries only.
 *
 * The object is not trusted: every length and offset is checked, and time and memory are bounded by
 * its size and the limits below. Nothing is opened, and a file is read, not mapped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "shared/unwind_types.h"

#define UNWIND_SECTION_MAX (64u << 20) /* bytes of call frame information, unpacked */
#define UNWIND_PAGES_MAX (1u << 16)    /* from the first to the last byte of the code */
#define UNWIND_ROWS_MAX (1u << 24)

/* Plain arrays: they can be written to a file or sent to another process as they are. */
struct unwind_table {
	uint64_t first_page; /* address >> UNWIND_PAGE_SHIFT that page[0] is for */
	uint32_t page_nr, rule_nr, row_nr;
	uint32_t *page; /* page_nr + 1: its first row, and the end */
	struct unwind_rule *rule; /* rule[0] is UNWIND_CFA_NONE */
	unwind_row *row;
	uint32_t segment_nr;
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX]; /* of more only the first */

	/* What it was made from. */
	uint32_t fde_nr;
	uint32_t outside_nr;	    /* FDEs outside of the code, left out */
	uint32_t not_understood_nr; /* CIEs and FDEs left out: nothing is known of their code */
	uint32_t unsupported_nr;    /* rows that are UNWIND_CFA_UNSUPPORTED */
};

/*
 * 0; -ENODATA no call frame information; -ENOEXEC not an ELF program or library, or a broken one;
 * -ENOTSUP 32-bit, or for another machine; -E2BIG above a limit; -ENOMEM; what reading gave.
 * The second one's image is the object as it lies in memory: the vDSO.
 */
int unwind_table__from_file(int fd, struct unwind_table **ret, struct reason *why);
int unwind_table__from_memory(const void *image, size_t size, struct unwind_table **ret,
			      struct reason *why);
void unwind_table__free(struct unwind_table *table); /* NULL is fine */

/* Where an offset of the file is, if it is code. 0 or -ENOENT. */
int unwind_table__vaddr(const struct unwind_table *table, uint64_t offset, uint64_t *ret_vaddr);

/* The rule at an address as in the file; UNWIND_CFA_NONE where the table has nothing. */
struct unwind_rule unwind_table__rule(const struct unwind_table *table, uint64_t vaddr);

/*
 * Whether the arrays are what they must be: pages that follow each other, rows in order, ids of
 * rules that are there, known kinds. For one that came from another process or a file.
 */
bool unwind_table__is_sound(const struct unwind_table *table);

#endif
