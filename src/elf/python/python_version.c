// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether a file is CPython, and which one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "elf/elf_object_private.h"
#include "elf/python/python_private.h"
#include "elf/python/python_value.h"

#define VERSION_CODE_MAX 512 /* bytes of Py_GetVersion() */

static const char *const symbol_names[SYMBOL_NR] = {
	[SYMBOL_RUNTIME] = "_PyRuntime",
	[SYMBOL_VERSION] = "Py_Version",
	[SYMBOL_GET_VERSION] = "Py_GetVersion",
	[SYMBOL_RAW_MALLOC] = "PyMem_RawMalloc",
	[SYMBOL_MEM_MALLOC] = "PyMem_Malloc",
	[SYMBOL_OBJECT_MALLOC] = "PyObject_Malloc",
	[SYMBOL_TRACK] = "PyTraceMalloc_Track",
	[SYMBOL_UNTRACK] = "PyTraceMalloc_Untrack",
	[SYMBOL_TYPE_TYPE] = "PyType_Type",
	[SYMBOL_NEW_REFERENCE] = "_Py_NewReference",
	[SYMBOL_CODE_TYPE] = "PyCode_Type",
	[SYMBOL_GET_TRACER] = "PyRefTracer_GetTracer",
	[SYMBOL_DEBUG_BUILD] = "_Py_NegativeRefcount",
};

static bool is_symbol_named(const struct name_key *key, const char *name)
{
	return key->len == strlen(name) && !memcmp(key->bytes, name, key->len);
}

int python_find_symbols(struct python_search *search)
{
	struct symbol_table table = {};
	int err = elf_object__load_dynamic_symbols(search->elf, &table);

	for (size_t i = 0; !err && i < table.symbol_nr; i++) {
		const Elf64_Sym *symbol = &table.symbol[i];
		struct name_key name;

		if (symbol->st_shndx == SHN_UNDEF)
			continue;
		name = symbol_table__name(&table, symbol);
		for (unsigned int k = 0; k < SYMBOL_NR; k++)
			if (is_symbol_named(&name, symbol_names[k])) {
				search->symbol[k] = symbol->st_value;
				search->symbol_bytes[k] = symbol->st_size;
			}
	}
	return err ?: search->symbol[SYMBOL_RUNTIME] ? err : -ENOENT;
}

/* ---- the version ---- */

/* "3.10.13", as a string of its own. */
static bool version_text_at(const struct python_search *search, uint64_t vaddr, struct python_version *ret)
{
	char text[16] = "";
	int end = 0;

	if (!elf_object__read_at(search->elf, vaddr, text, sizeof(text) - 1))
		return false;
	return sscanf(text, "%hhu.%hhu.%hhu%n", &ret->major, &ret->minor, &ret->micro, &end) == 3 && ret->major == 3 &&
	       strspn(text + end, "abcr+0123456789") == strlen(text + end);
}

/* Until 3.10 only Py_GetVersion() knows: one of the texts that it refers to. */
static bool version_in_code(struct python_search *search, struct python_version *ret)
{
	uint64_t at = search->symbol[SYMBOL_GET_VERSION], end = at + VERSION_CODE_MAX;
	struct python_code *code = &search->code;

	for (; at && at < end && python_code__decode(code, at); at += code->insn->size) {
		const cs_x86 *x86 = &code->insn->detail->x86;
		const cs_x86_op *from = &x86->operands[1];

		if (x86->op_count != 2)
			continue;
		if (from->type == X86_OP_IMM && version_text_at(search, from->imm, ret))
			return true;
		if (from->type == X86_OP_MEM && from->mem.base == X86_REG_RIP &&
		    version_text_at(search, code->insn->address + code->insn->size + from->mem.disp, ret))
			return true;
	}
	return false;
}

bool python_find_version(struct python_search *search)
{
	struct python_version *version = &search->info->version;
	uint32_t number;

	if (search->symbol[SYMBOL_VERSION]) {
		if (elf_object__read_at(search->elf, search->symbol[SYMBOL_VERSION], &number, sizeof(number)) != sizeof(number))
			return python_info__refuse(search->info, "a CPython whose Py_Version cannot be read");
		*version = (struct python_version){ number >> 24, number >> 16, number >> 8, number };
		return true;
	}
	if (!version_in_code(search, version))
		return python_info__refuse(search->info, "a CPython of an unknown version");
	return true;
}
