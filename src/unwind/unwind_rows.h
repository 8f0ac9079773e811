/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_UNWIND_UNWIND_ROWS_H
#define ALLOCSNAP_UNWIND_UNWIND_ROWS_H

/* Builds the arrays of a table from rules in the order of their addresses. */

#include "base/idmap.h"
#include "unwind/unwind_table.h"

struct rows {
	uint64_t first_page;
	uint32_t page_max;
	uint32_t current; /* id of the rule in force after the last row */
	uint32_t *page;
	size_t page_nr, page_alloc;
	struct unwind_rule *rule;
	size_t rule_nr, rule_alloc;
	unwind_row *row;
	size_t row_nr, row_alloc;
	struct idmap ids;
	uint64_t unsupported_nr;
};

/* For addresses [start, end), which span at most UNWIND_PAGES_MAX pages. 0 or -ENOMEM. */
int rows_begin(struct rows *rows, uint64_t start, uint64_t end);

/*
 * Adds a rule that holds from an address on; addresses never decrease. A rule beyond
 * UNWIND_RULES_MAX becomes UNWIND_CFA_UNSUPPORTED. 0, -ENOMEM, -E2BIG: more than UNWIND_ROWS_MAX
 * rows.
 */
int rows_add(struct rows *rows, uint64_t address, struct unwind_rule rule);

/* Moves the arrays into the table. 0 or as above. */
int rows_finish(struct rows *rows, struct unwind_table *table);

void rows_release(struct rows *rows);

#endif
