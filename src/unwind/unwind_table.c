// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "unwind/cfi_entries.h"
#include "unwind/cfi_machine.h"
#include "unwind/cfi_program.h"
#include "unwind/stack_rules.h"

/* Builds the arrays of a table from rules in the order of their addresses. */

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

/* For addresses [start, end), which span at most UNWIND_PAGES_MAX pages. 0 or -ENOMEM. */
static int rows_begin(struct rows *rows, uint64_t start, uint64_t end)
{
	*rows = (struct rows){
		.first_page = start >> UNWIND_PAGE_SHIFT,
		.page_max = ((end - 1) >> UNWIND_PAGE_SHIFT) - (start >> UNWIND_PAGE_SHIFT) + 1,
	};
	return intern_rule(rows, (struct unwind_rule){ 0 }, &rows->current);
}

/*
 * Adds a rule that holds from an address on; addresses never decrease. A rule beyond
 * UNWIND_RULES_MAX becomes UNWIND_CFA_UNSUPPORTED. 0, -ENOMEM, -E2BIG: more than UNWIND_ROWS_MAX
 * rows.
 */
static int rows_add(struct rows *rows, uint64_t address, struct unwind_rule rule)
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

/* Moves the arrays into the table. 0 or as above. */
static int rows_finish(struct rows *rows, struct unwind_table *table)
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

static void rows_release(struct rows *rows)
{
	free(rows->page);
	free(rows->rule);
	free(rows->row);
	idmap_release(&rows->ids);
}

/* ---- compiling ---- */

struct compiler {
	struct object_cfi cfi;
	struct entries entries;
	struct rows rows;
	struct program program;
	struct stack_rules stack_rules;
	size_t stack_rules_done;
	struct unwind_rule current; /* by call frame information */
};

/* Rules from code, each for one byte, take the place of other ones at addresses below `until`. */
static int add_stack_rules(struct compiler *c, uint64_t until)
{
	int err = 0;

	while (!err && c->stack_rules_done < c->stack_rules.rule_nr) {
		const struct stack_rule *next = &c->stack_rules.rule[c->stack_rules_done];

		if (next->address >= until)
			break;
		c->stack_rules_done++;
		err = rows_add(&c->rows, next->address, next->rule) ?:
		      rows_add(&c->rows, next->address + 1, c->current);
	}
	return err;
}

static int add_rule_from(struct compiler *c, uint64_t from, struct unwind_rule rule)
{
	int err = add_stack_rules(c, from);

	c->current = rule;
	return err ?: rows_add(&c->rows, from, rule);
}

static int table_add_row(void *context, const struct program *program, uint64_t from)
{
	const struct compiler *c = context;
	bool may_be_wrong = program->cie->section->is_debug_frame && c->stack_rules.is_partial;

	return add_rule_from(context, from, may_be_wrong ? (struct unwind_rule){ 0 } : rule_of(program));
}

/* Compiles one function, up to the start of the next one. After its end no rule is known. */
static int compile_fde(struct compiler *c, const struct fde *fde, uint64_t next)
{
	const struct cie *cie = &c->entries.cie[fde->cie];
	uint64_t until = fde->end < next ? fde->end : next;
	int err;

	c->program.machine = c->cfi.machine;
	if (c->program.cie != cie)
		program_start(&c->program, cie);
	err = program_run(&c->program, fde, until, table_add_row, c);
	if (!err && fde->end < next)
		err = add_rule_from(c, fde->end, (struct unwind_rule){ 0 });
	return err;
}

static int compile_fdes(struct compiler *c)
{
	const struct entries *entries = &c->entries;
	int err = 0;

	for (size_t i = 0; !err && i < entries->fde_nr; i++)
		err = compile_fde(c, &entries->fde[i],
				  i + 1 < entries->fde_nr ? entries->fde[i + 1].start : UINT64_MAX);
	return err ?: add_stack_rules(c, UINT64_MAX);
}

static int list_fdes(struct compiler *c)
{
	int err = 0;

	c->entries.text_start = c->cfi.text_start;
	c->entries.text_end = c->cfi.text_end;
	for (uint32_t i = 0; !err && i < c->cfi.section_nr; i++)
		err = entries_add(&c->entries, &c->cfi.section[i]);
	entries_sort(&c->entries);
	return err;
}

static int compile(struct compiler *c, Elf *elf, struct unwind_table *table)
{
	int err = list_fdes(c) ?: stack_rules_find(elf, &c->cfi, &c->entries, &c->stack_rules);

	if (!err && !c->entries.fde_nr && !c->stack_rules.rule_nr)
		err = -ENODATA;
	if (!err)
		err = rows_begin(&c->rows, c->cfi.text_start, c->cfi.text_end);
	if (!err)
		err = compile_fdes(c);
	if (!err)
		err = rows_finish(&c->rows, table);
	table->segment_nr = c->cfi.segment_nr;
	memcpy(table->segment, c->cfi.segment, sizeof(table->segment));
	table->fde_nr = c->entries.fde_nr;
	table->outside_nr = c->entries.outside;
	table->not_understood_nr = c->entries.not_understood;
	return err;
}

static const char *what_failed(int err)
{
	switch (err) {
	case -ENODATA:
		return "no call frame information";
	case -E2BIG:
		return "too much call frame information";
	default:
		return strerror(-err);
	}
}

static int compile_elf(Elf *elf, struct unwind_table **ret, struct reason *why)
{
	struct unwind_table *table = calloc(1, sizeof(*table));
	struct compiler *c = calloc(1, sizeof(*c));
	int err;

	if (!table || !c) {
		err = reason_set(why, -ENOMEM, "out of memory");
		goto out;
	}
	err = object_cfi_find(elf, &c->cfi, why);
	if (err)
		goto out;
	err = compile(c, elf, table);
	if (err) {
		reason_set(why, err, "%s", what_failed(err));
		goto out;
	}
	*ret = table;
	table = NULL;
out:
	if (c) {
		entries_release(&c->entries);
		rows_release(&c->rows);
		free(c->stack_rules.rule);
	}
	free(c);
	unwind_table__free(table);
	return err;
}

/* Ends elf, which is NULL if it could not be opened. */
static int compile_and_end(Elf *elf, struct unwind_table **ret, struct reason *why)
{
	int err;

	if (!elf)
		return reason_set(why, -ENOEXEC, "not readable as ELF: %s", elf_errmsg(-1));
	err = compile_elf(elf, ret, why);
	elf_end(elf);
	return err;
}

int unwind_table__from_file(int fd, struct unwind_table **ret, struct reason *why)
{
	elf_version(EV_CURRENT);
	return compile_and_end(elf_begin(fd, ELF_C_READ, NULL), ret, why);
}

/* libelf's argument is not const, because some callers modify the image. */
int unwind_table__from_memory(const void *image, size_t size, struct unwind_table **ret,
			      struct reason *why)
{
	elf_version(EV_CURRENT);
	return compile_and_end(elf_memory((char *)image, size), ret, why);
}

void unwind_table__free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->page);
	free(table->rule);
	free(table->row);
	free(table);
}

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
