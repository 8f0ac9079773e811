// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "symbols/symtab.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct entry {
	uint64_t address, size;
	uint64_t section_end;
	const char *name;
	uint8_t binding;
};

struct entries {
	struct entry *entry;
	size_t entry_nr, entry_alloc;
	bool has_local_functions;
};

static bool is_code_type(uint8_t type)
{
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

/*
 * Finds the section that holds the symbol. Returns false if it is no code, or for SHN_ABS and other
 * special indices.
 */
static bool code_section(Elf *elf, GElf_Word index, GElf_Shdr *ret)
{
	Elf_Scn *section = elf && index != SHN_UNDEF ? elf_getscn(elf, index) : NULL;

	return section && gelf_getshdr(section, ret) && (ret->sh_flags & SHF_EXECINSTR);
}

/* On arm64 and RISC-V the local symbols $x and $d mark code and data. */
static bool is_symbol_name(const char *name)
{
	return name && *name && *name != '$';
}

static int add_entry(struct entries *entries, Dwfl_Module *module, int index)
{
	GElf_Word section_index;
	GElf_Shdr section;
	GElf_Addr bias;
	struct entry entry;
	GElf_Sym symbol;
	Elf *elf;

	entry.name = dwfl_module_getsym_info(module, index, &symbol, &entry.address,
					     &section_index, &elf, &bias);
	if (!is_symbol_name(entry.name) || !is_code_type(GELF_ST_TYPE(symbol.st_info)) ||
	    !code_section(elf, section_index, &section))
		return 0;
	entry.size = symbol.st_size;
	entry.binding = GELF_ST_BIND(symbol.st_info);
	entry.section_end = section.sh_addr + section.sh_size + bias;
	if (entry.address >= entry.section_end)
		return 0;
	if (entry.size > entry.section_end - entry.address)
		entry.size = entry.section_end - entry.address;
	if (entry.binding == STB_LOCAL && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
		entries->has_local_functions = true;
	return array_push(entries, entry, entry);
}

/*
 * The underscore of _Z, _R and _D is part of the mangling. __GI_… is glibc's own name for a
 * function that it exports as ….
 */
static size_t underscores(const char *name)
{
	size_t nr = strspn(name, "_");

	if (!strncmp(name, "__GI_", 5))
		return nr + strspn(name + 5, "_");
	return nr == 1 && strchr("ZRD", name[1]) ? 0 : nr;
}

static int binding_rank(uint8_t binding)
{
	return binding == STB_LOCAL ? 2 : binding == STB_WEAK;
}

static int compare_names(const struct entry *a, const struct entry *b)
{
	size_t a_len = strlen(a->name), b_len = strlen(b->name);
	int by = (int)underscores(a->name) - (int)underscores(b->name);

	if (!by)
		by = binding_rank(a->binding) - binding_rank(b->binding);
	if (!by)
		by = (a_len > b_len) - (a_len < b_len);
	return by ? by : strcmp(a->name, b->name);
}

static int compare_entries(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	if (a->size != b->size)
		return a->size > b->size ? -1 : 1;
	return compare_names(a, b);
}

static int add_symbol(struct symtab *symtab, struct ranges *ranges, const struct entry *entry,
		      uint64_t end)
{
	int err = array_push(symtab, name, entry->name);

	return err ? err : ranges_add(ranges, entry->address, end, symtab->name_nr - 1);
}

/* The index of the first entry after i at another address. */
static size_t next_address(const struct entries *entries, size_t i)
{
	size_t next = i + 1;

	while (next < entries->entry_nr && entries->entry[next].address == entries->entry[i].address)
		next++;
	return next;
}

static int add_sized(struct symtab *symtab, const struct entries *entries)
{
	int err = 0;

	for (size_t i = 0; i < entries->entry_nr && !err; i = next_address(entries, i)) {
		const struct entry *entry = &entries->entry[i];

		if (entry->size)
			err = add_symbol(symtab, &symtab->sized, entry, entry->address + entry->size);
	}
	ranges_sort(&symtab->sized);
	return err;
}

static int add_unsized(struct symtab *symtab, const struct entries *entries)
{
	size_t next;
	int err = 0;

	for (size_t i = 0; i < entries->entry_nr && !err; i = next) {
		const struct entry *entry = &entries->entry[i];
		uint64_t end = entry->section_end;

		next = next_address(entries, i);
		if (next < entries->entry_nr && entries->entry[next].address < end)
			end = entries->entry[next].address;
		if (!entry->size && ranges_find(&symtab->sized, entry->address) == RANGE_NONE)
			err = add_symbol(symtab, &symtab->unsized, entry, end);
	}
	ranges_sort(&symtab->unsized);
	return err;
}

int symtab_load(struct symtab *symtab, Dwfl_Module *module)
{
	int nr = dwfl_module_getsymtab(module), err = 0;
	struct entries entries = {};

	for (int i = 1; i < nr && !err; i++)
		err = add_entry(&entries, module, i);
	if (!err && entries.entry_nr) {
		qsort(entries.entry, entries.entry_nr, sizeof(*entries.entry), compare_entries);
		err = add_sized(symtab, &entries);
		if (!err && entries.has_local_functions)
			err = add_unsized(symtab, &entries);
	}
	free(entries.entry);
	return err;
}

const char *symtab_find(const struct symtab *symtab, uint64_t address)
{
	uint32_t id = ranges_find(&symtab->sized, address);

	if (id == RANGE_NONE)
		id = ranges_find(&symtab->unsized, address);
	return id == RANGE_NONE ? NULL : symtab->name[id];
}

void symtab_release(struct symtab *symtab)
{
	ranges_release(&symtab->sized);
	ranges_release(&symtab->unsized);
	free(symtab->name);
	memset(symtab, 0, sizeof(*symtab));
}
