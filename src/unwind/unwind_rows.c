// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/unwind_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* ---- rules ---- */

static uint64_t bits_of(struct unwind_rule rule)
{
	uint64_t bits;

	memcpy(&bits, &rule, sizeof(bits));
	return bits;
}

static bool same_rule(uint32_t id, const void *key, const void *table)
{
	const struct rows *rows = table;

	return bits_of(rows->rule[id]) == *(const uint64_t *)key;
}

/* Adds a new rule. The last id is reserved for all rules that exceed the limit. */
static int add_rule(struct rows *rows, struct unwind_rule rule, uint64_t hash, uint32_t *ret_id)
{
	int err;

	if (rows->rule_nr >= UNWIND_RULES_MAX - 1)
		rule = (struct unwind_rule){ .cfa_kind = UNWIND_CFA_UNSUPPORTED };
	*ret_id = rows->rule_nr;
	if (rows->rule_nr == UNWIND_RULES_MAX) {
		*ret_id = UNWIND_RULES_MAX - 1;
		return 0;
	}
	err = array_push(rows, rule, rule);
	return err ? err : idmap_add(&rows->ids, hash, *ret_id);
}

static int intern_rule(struct rows *rows, struct unwind_rule rule, uint32_t *ret_id)
{
	uint64_t bits = bits_of(rule), hash = hash_bytes(&bits, sizeof(bits), 0);

	*ret_id = idmap_find(&rows->ids, hash, same_rule, &bits, rows);
	return *ret_id == IDMAP_NONE ? add_rule(rows, rule, hash, ret_id) : 0;
}

/* ---- rows ---- */

static int push_row(struct rows *rows, uint64_t address, uint32_t rule)
{
	if (rows->row_nr >= UNWIND_ROWS_MAX)
		return -E2BIG;
	return array_push(rows, row, UNWIND_ROW(address & UNWIND_PAGE_MASK, rule));
}

/* Adds pages up to page_nr, each with a row at its first byte. */
static int begin_pages(struct rows *rows, uint64_t page_nr)
{
	int err = 0;

	while (!err && rows->page_nr < page_nr) {
		err = array_push(rows, page, rows->row_nr);
		if (!err)
			err = push_row(rows, 0, rows->current);
	}
	return err;
}

static bool has_row_at(const struct rows *rows, uint64_t address)
{
	return UNWIND_ROW_ADDRESS(rows->row[rows->row_nr - 1]) == (address & UNWIND_PAGE_MASK);
}

int rows_begin(struct rows *rows, uint64_t start, uint64_t end)
{
	*rows = (struct rows){
		.first_page = start >> UNWIND_PAGE_SHIFT,
		.page_max = ((end - 1) >> UNWIND_PAGE_SHIFT) - (start >> UNWIND_PAGE_SHIFT) + 1,
	};
	return intern_rule(rows, (struct unwind_rule){ 0 }, &rows->current);
}

int rows_add(struct rows *rows, uint64_t address, struct unwind_rule rule)
{
	uint64_t page = (address >> UNWIND_PAGE_SHIFT) - rows->first_page;
	uint32_t id;
	int err;

	if (page >= rows->page_max)
		return 0;
	err = intern_rule(rows, rule, &id);
	if (!err)
		err = begin_pages(rows, page + 1);
	if (err || id == rows->current)
		return err;
	rows->current = id;
	rows->unsupported_nr += rows->rule[id].cfa_kind == UNWIND_CFA_UNSUPPORTED;
	if (!has_row_at(rows, address))
		return push_row(rows, address, id);
	rows->row[rows->row_nr - 1] = UNWIND_ROW(address & UNWIND_PAGE_MASK, id);
	return 0;
}

/* ---- the table ---- */

/* Shrinks an array to its size; keeps it as it is if that fails. */
static void *fitted(void *items, size_t nr, size_t size)
{
	void *moved = reallocarray(items, nr, size);

	return moved ? moved : items;
}

int rows_finish(struct rows *rows, struct unwind_table *table)
{
	int err = begin_pages(rows, rows->page_max);

	if (!err)
		err = array_push(rows, page, rows->row_nr);
	if (err)
		return err;
	table->first_page = rows->first_page;
	table->page_nr = rows->page_nr - 1;
	table->rule_nr = rows->rule_nr;
	table->row_nr = rows->row_nr;
	table->unsupported_nr = rows->unsupported_nr;
	table->page = fitted(rows->page, rows->page_nr, sizeof(*rows->page));
	table->rule = fitted(rows->rule, rows->rule_nr, sizeof(*rows->rule));
	table->row = fitted(rows->row, rows->row_nr, sizeof(*rows->row));
	rows->page = NULL;
	rows->rule = NULL;
	rows->row = NULL;
	return 0;
}

void rows_release(struct rows *rows)
{
	free(rows->page);
	free(rows->rule);
	free(rows->row);
	idmap_release(&rows->ids);
}
