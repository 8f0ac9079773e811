// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "unwind/unwind_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/object_cfi.h"
#include "unwind/cfi_program.h"
#include "unwind/stack_rules.h"
#include "unwind/unwind_rows.h"

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
