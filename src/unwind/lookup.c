// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/unwind_table.h"

#include <errno.h>

struct unwind_rows {
	const unwind_row *row;
};

static unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	return rows->row[index];
}

#include "shared/unwind_lookup.h"

struct unwind_rule unwind_table__rule(const struct unwind_table *table, uint64_t vaddr)
{
	const struct unwind_rows rows = { table->row };
	uint64_t page = (vaddr >> UNWIND_PAGE_SHIFT) - table->first_page;
	uint32_t first;

	if (page >= table->page_nr)
		return (struct unwind_rule){ 0 };
	first = table->page[page];
	return table->rule[UNWIND_ROW_RULE(
		unwind_find_row(&rows, first, table->page[page + 1] - first, vaddr))];
}

int unwind_table__vaddr(const struct unwind_table *table, uint64_t offset, uint64_t *ret_vaddr)
{
	for (uint32_t i = 0; i < table->segment_nr; i++) {
		const struct unwind_segment *segment = &table->segment[i];

		if (offset < segment->offset || offset >= segment->end)
			continue;
		*ret_vaddr = offset + segment->delta;
		return 0;
	}
	return -ENOENT;
}

/* ---- checks of a table from elsewhere ---- */

static bool is_rule_sound(const struct unwind_rule *rule)
{
	return rule->cfa_kind < UNWIND_CFA_NR && rule->fp_kind < UNWIND_FP_NR;
}

static bool is_page_sound(const struct unwind_table *table, uint32_t page)
{
	uint32_t first = table->page[page], end = table->page[page + 1];

	if (first >= end || end > table->row_nr || UNWIND_ROW_ADDRESS(table->row[first]))
		return false;
	for (uint32_t i = first; i < end; i++) {
		if (UNWIND_ROW_RULE(table->row[i]) >= table->rule_nr)
			return false;
		if (i > first && UNWIND_ROW_ADDRESS(table->row[i - 1]) >=
					 UNWIND_ROW_ADDRESS(table->row[i]))
			return false;
	}
	return true;
}

bool unwind_table__is_sound(const struct unwind_table *table)
{
	if (table->segment_nr > UNWIND_SEGMENTS_MAX || !table->page_nr || !table->rule_nr ||
	    table->rule_nr > UNWIND_RULES_MAX || table->page_nr > UNWIND_PAGES_MAX || table->row_nr > UNWIND_ROWS_MAX ||
	    table->page[0] || table->page[table->page_nr] != table->row_nr)
		return false;
	for (uint32_t i = 0; i < table->rule_nr; i++)
		if (!is_rule_sound(&table->rule[i]))
			return false;
	for (uint32_t i = 0; i < table->page_nr; i++)
		if (!is_page_sound(table, i))
			return false;
	return true;
}
