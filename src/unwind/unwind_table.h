/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_UNWIND_TABLE_H
#define ALLOCSNAP_UNWIND_UNWIND_TABLE_H

/*
 * The unwind table of an object (bpf/shared/unwind_types.h), compiled from its call frame
 * information: .eh_frame (located by PT_GNU_EH_FRAME if there are no section headers), and
 * .debug_frame for functions that .eh_frame does not describe. x86-64 programs and libraries only.
 *
 * The object is not trusted: every length and offset is checked, and its size and the limits below
 * bound time and memory. This opens no files, and it reads the file instead of mapping it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "shared/unwind_types.h"

#define UNWIND_SECTION_MAX (64u << 20) /* bytes of call frame information, decompressed */
#define UNWIND_PAGES_MAX (1u << 16)    /* from the first to the last byte of the code */
#define UNWIND_ROWS_MAX (1u << 24)

/* Plain arrays: they can be sent to another process as they are. */
struct unwind_table {
	uint64_t first_page; /* address >> UNWIND_PAGE_SHIFT of page[0] */
	uint32_t page_nr, rule_nr, row_nr;
	uint32_t *page; /* page_nr + 1 entries: the first row of each page, and the end */
	struct unwind_rule *rule; /* rule[0] is UNWIND_CFA_NONE */
	unwind_row *row;
	uint32_t segment_nr;
	struct unwind_segment segment[UNWIND_SEGMENTS_MAX]; /* only the first ones, if there are more */

	/* Counts from compiling the table. */
	uint32_t fde_nr;
	uint32_t outside_nr;	    /* FDEs left out because they are outside of the code */
	uint32_t not_understood_nr; /* CIEs and FDEs left out: there are no rules for their code */
	uint32_t unsupported_nr;    /* rows that are UNWIND_CFA_UNSUPPORTED */
};

/*
 * 0; -ENODATA no call frame information; -ENOEXEC not an ELF program or library, or a broken one;
 * -ENOTSUP 32-bit, or for another machine; -E2BIG above a limit; -ENOMEM; or the error of reading
 * the file. unwind_table__from_memory() takes the object as it lies in memory: the vDSO.
 */
int unwind_table__from_file(int fd, struct unwind_table **ret, struct reason *why);
int unwind_table__from_memory(const void *image, size_t size, struct unwind_table **ret,
			      struct reason *why);
void unwind_table__free(struct unwind_table *table); /* NULL is allowed */

/* The virtual address of a file offset, if it is code. 0 or -ENOENT. */
int unwind_table__vaddr(const struct unwind_table *table, uint64_t offset, uint64_t *ret_vaddr);

/* The rule at a virtual address of the file; UNWIND_CFA_NONE if the table has none. */
struct unwind_rule unwind_table__rule(const struct unwind_table *table, uint64_t vaddr);

/*
 * Checks a table from another process: pages follow each other, rows are in order, ids
 * refer to existing rules, kinds are known.
 */
bool unwind_table__is_sound(const struct unwind_table *table);

#endif
