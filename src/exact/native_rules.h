/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_EXACT_NATIVE_RULES_H
#define ALLOCSNAP_EXACT_NATIVE_RULES_H

/*
 * The rule that finds the caller of code, by the tables in the books. The hooks use it, and the recorder, which walks the
 * stacks that they have copied.
 */

#include <stdbool.h>
#include <stdint.h>

#include "exact/books.h"

struct unwind_rows {
	const uint64_t *tables;
	uint32_t at; /* word */
};

/* A word that the process has written over is some other row or rule. */
static inline const uint64_t *table_word(const uint64_t *tables, uint64_t at)
{
	return &tables[at % BOOKS_TABLE_WORDS];
}

static inline uint32_t table_half(const uint64_t *tables, uint64_t at, uint64_t index)
{
	return ((const uint32_t *)table_word(tables, at + index / 2))[index % 2];
}

static inline unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return table_half(rows->tables, rows->at, index);
}

#include "shared/unwind_lookup.h"

/* The code that an address belongs to; NULL: none is known. */
static inline const struct books_region *find_region(const struct books_known *known, uint64_t address)
{
	uint32_t nr = known->region_nr < BOOKS_REGIONS_MAX ? known->region_nr : BOOKS_REGIONS_MAX, low = 0, high = nr;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (known->region[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nr && address - known->region[low].start < known->region[low].end - known->region[low].start ?
		       &known->region[low] : NULL;
}

/* The rule of an address in a region with a table. */
static inline struct unwind_rule rule_in_region(const struct books_region *region, const uint64_t *tables, uint64_t address)
{
	uint64_t in_file = address + region->delta, page = (in_file >> UNWIND_PAGE_SHIFT) - region->first_page;
	union { uint64_t word; struct unwind_rule rule; } found = {};

	if (page < region->page_nr) {
		uint32_t first = table_half(tables, region->page_at, page), end = table_half(tables, region->page_at, page + 1);
		const struct unwind_rows rows = { tables, region->row_at };

		found.word = *table_word(tables, region->rule_at +
					 UNWIND_ROW_RULE(unwind_find_row(&rows, first, end - first, in_file)));
	}
	if (found.rule.cfa_kind == UNWIND_CFA_NONE && in_file - region->entry < region->entry_end - region->entry)
		return (struct unwind_rule){ .cfa_kind = UNWIND_CFA_ROOT };
	return found.rule;
}

#endif
