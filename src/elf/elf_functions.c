// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/elf_object_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/idmap.h"
#include "elf/machine.h"

/* ---- functions by name ---- */

struct search {
	const struct elf_object *obj;
	const char *const *name;
	struct idmap names; /* → index of name */
	struct elf_prefixes *prefixes; /* NULL: not asked for */
	struct elf_function *function;
	size_t function_nr, function_alloc;
};

static bool same_function_name(uint32_t id, const void *key, const void *table)
{
	const struct search *search = table;
	const struct name_key *want = key;

	return !strncmp(search->name[id], want->bytes, want->len) && !search->name[id][want->len];
}

static uint32_t search__name(const struct search *search, const char *bytes, size_t len)
{
	struct name_key key = { .bytes = bytes, .len = len };

	return idmap_find(&search->names, hash_bytes(bytes, len, 0), same_function_name, &key, search);
}

static int search__init(struct search *search, const struct elf_object *obj,
			const char *const *name, size_t name_nr)
{
	int err = 0;

	*search = (struct search){ .obj = obj, .name = name };
	for (size_t i = 0; i < name_nr && !err; i++) {
		size_t len = strlen(name[i]);

		if (search__name(search, name[i], len) == IDMAP_NONE)
			err = idmap_add(&search->names, hash_bytes(name[i], len, 0), i);
	}
	return err;
}

static bool is_defined_function(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_shndx != SHN_ABS;
}

static int search__take(struct search *search, const Elf64_Sym *symbol, uint32_t name)
{
	struct elf_function function = {
		.name = name,
		.vaddr = symbol->st_value,
		.is_ifunc = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC,
		.is_local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL,
	};
	uint64_t left;

	if (elf_object__locate(search->obj, function.vaddr, PF_X, &function.offset, &left))
		return 0;
	function.size = symbol->st_size < left ? symbol->st_size : left;
	if (search->function_nr >= 2 * ELF_FUNCTIONS_MAX)
		return -E2BIG;
	return array_push(search, function, function);
}

static void add_prefix(struct elf_prefixes *prefixes, size_t end, const char *text, size_t len)
{
	struct elf_prefix *found = &prefixes->found[prefixes->found_nr];

	for (size_t i = 0; i < prefixes->found_nr; i++)
		if (prefixes->found[i].end == end && !strncmp(prefixes->found[i].text, text, len) &&
		    !prefixes->found[i].text[len])
			return;
	if (prefixes->found_nr == ELF_PREFIXES_MAX || len >= sizeof(found->text)) {
		prefixes->are_more = true;
		return;
	}
	found->end = end;
	memcpy(found->text, text, len);
	found->text[len] = '\0';
	prefixes->found_nr++;
}

static void search__prefix(const struct search *search, const struct name_key *name)
{
	struct elf_prefixes *prefixes = search->prefixes;

	for (size_t i = 0; prefixes && i < prefixes->end_nr; i++) {
		size_t len = strlen(prefixes->end[i]);

		if (name->len > len && !memcmp(name->bytes + name->len - len, prefixes->end[i], len))
			add_prefix(prefixes, i, name->bytes, name->len - len);
	}
}

static int search__table(struct search *search, const struct symbol_table *table)
{
	for (size_t i = 0; i < table->symbol_nr; i++) {
		struct name_key name;
		uint32_t id;
		int err = 0;

		if (!is_defined_function(&table->symbol[i]))
			continue;
		name = symbol_table__name(table, &table->symbol[i]);
		id = name.len ? search__name(search, name.bytes, name.len) : IDMAP_NONE;
		if (id == IDMAP_NONE)
			search__prefix(search, &name);
		else
			err = search__take(search, &table->symbol[i], id);
		if (err)
			return err;
	}
	return 0;
}

int elf_function_compare(const void *a, const void *b)
{
	const struct elf_function *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/*
 * Merges entries of the same (name, address). The result is local only if all are, an ifunc if any
 * is, and has the largest size.
 */
static void search__merge(struct search *search)
{
	struct elf_function *all = search->function;
	size_t kept = 0;

	if (search->function_nr)
		qsort(all, search->function_nr, sizeof(*all), elf_function_compare);
	for (size_t i = 0; i < search->function_nr; i++) {
		if (!kept || elf_function_compare(&all[kept - 1], &all[i])) {
			all[kept++] = all[i];
			continue;
		}
		all[kept - 1].is_local &= all[i].is_local;
		all[kept - 1].is_ifunc |= all[i].is_ifunc;
		if (all[i].size > all[kept - 1].size)
			all[kept - 1].size = all[i].size;
	}
	search->function_nr = kept;
}

int elf_object__find_functions_and_prefixes(struct elf_object *obj, const char *const *name, size_t name_nr,
					    struct elf_prefixes *prefixes, struct elf_function **ret, size_t *ret_nr)
{
	struct symbol_table dynamic = { 0 }, section = { 0 };
	struct search search;
	int err;

	err = search__init(&search, obj, name, name_nr);
	search.prefixes = prefixes;
	err = err ?: elf_object__load_dynamic_symbols(obj, &dynamic);
	err = err ?: elf_object__load_section_symbols(obj, SHT_SYMTAB, &section);
	err = err ?: search__table(&search, &dynamic);
	err = err ?: search__table(&search, &section);
	idmap_release(&search.names);
	if (!err) {
		search__merge(&search);
		err = search.function_nr > ELF_FUNCTIONS_MAX ? -E2BIG : 0;
	}
	if (err) {
		free(search.function);
		return err;
	}
	*ret = search.function;
	*ret_nr = search.function_nr;
	return 0;
}

int elf_object__find_functions(struct elf_object *obj, const char *const *name, size_t name_nr,
			       struct elf_function **ret, size_t *ret_nr)
{
	return elf_object__find_functions_and_prefixes(obj, name, name_nr, NULL, ret, ret_nr);
}

/* ---- names of any kind ---- */

static uint32_t name_in_table(const struct search *search, const struct symbol_table *table)
{
	for (size_t i = 0; i < table->symbol_nr; i++) {
		struct name_key name = symbol_table__name(table, &table->symbol[i]);
		uint32_t id = name.len ? search__name(search, name.bytes, name.len) : IDMAP_NONE;

		if (id != IDMAP_NONE)
			return id;
	}
	return IDMAP_NONE;
}

static uint32_t name_of_section(const struct search *search, const struct elf_object *obj)
{
	uint32_t id = IDMAP_NONE;
	Elf_Scn *scn = NULL;
	GElf_Shdr section;
	size_t strings;

	if (elf_getshdrstrndx(obj->elf, &strings))
		return id;
	while (id == IDMAP_NONE && (scn = elf_nextscn(obj->elf, scn)) &&
	       gelf_getshdr(scn, &section)) {
		const char *name = elf_strptr(obj->elf, strings, section.sh_name);

		if (name)
			id = search__name(search, name, strlen(name));
	}
	return id;
}

/*
 * If no symbol is defined, a GNU hash table yields no symbols, although undefined ones may exist.
 * So the section headers come first.
 */
static int load_all_dynamic_symbols(const struct elf_object *obj, struct symbol_table *table)
{
	int err = elf_object__load_section_symbols(obj, SHT_DYNSYM, table);

	return err || table->symbol_nr ? err : elf_object__load_dynamic_symbols(obj, table);
}

int elf_object__find_name(struct elf_object *obj, const char *const *name, size_t name_nr,
			  size_t *ret_name)
{
	struct symbol_table dynamic = { 0 }, section = { 0 };
	uint32_t id = IDMAP_NONE;
	struct search search;
	int err;

	err = search__init(&search, obj, name, name_nr);
	err = err ?: load_all_dynamic_symbols(obj, &dynamic);
	err = err ?: elf_object__load_section_symbols(obj, SHT_SYMTAB, &section);
	if (!err)
		id = name_in_table(&search, &dynamic);
	if (!err && id == IDMAP_NONE)
		id = name_in_table(&search, &section);
	if (!err && id == IDMAP_NONE)
		id = name_of_section(&search, obj);
	idmap_release(&search.names);
	if (err)
		return err;
	*ret_name = id;
	return id == IDMAP_NONE ? -ENOENT : 0;
}

/* ---- relocations: which address the loader writes where ---- */

static enum relocation relocation_of(const struct elf_object *obj, const Elf64_Rela *relocation)
{
	const struct machine *machine = machine_of(obj->header.e_machine);

	for (enum relocation i = RELOCATION_OTHER + 1; machine && i < RELOCATION_NR; i++)
		if (machine->relocation[i] == ELF64_R_TYPE(relocation->r_info))
			return i;
	return RELOCATION_OTHER;
}

static const Elf64_Rela *find_relocation(const struct elf_object *obj, uint64_t table,
					 uint64_t bytes, uint64_t vaddr)
{
	uint64_t offset;
	Elf_Data *data;

	if (!bytes || elf_object__offset_of(obj, table, &offset))
		return NULL;
	data = elf_object__chunk(obj, offset, bytes, ELF_T_RELA);
	for (size_t i = 0; data && i < data->d_size / sizeof(Elf64_Rela); i++) {
		const Elf64_Rela *relocation = (const Elf64_Rela *)data->d_buf + i;

		if (relocation->r_offset == vaddr)
			return relocation;
	}
	return NULL;
}

/*
 * A static program has no PT_DYNAMIC. Its own start-up code applies the relocations of these
 * sections.
 */
static const Elf64_Rela *find_static_relocation(const struct elf_object *obj, uint64_t vaddr)
{
	uint64_t left = ELF_TABLE_MAX; /* sections may overlap */
	const Elf64_Rela *found = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr section;

	while (!found && (scn = elf_nextscn(obj->elf, scn)) && gelf_getshdr(scn, &section)) {
		if (section.sh_type != SHT_RELA || !(section.sh_flags & SHF_ALLOC))
			continue;
		if (section.sh_size > left)
			break;
		left -= section.sh_size;
		found = find_relocation(obj, section.sh_addr, section.sh_size, vaddr);
	}
	return found;
}

static int name_of_symbol(const struct elf_object *obj, size_t index, char **ret_name)
{
	struct symbol_table table = { 0 };
	struct name_key name;

	if (elf_object__load_dynamic_symbols(obj, &table) || index >= table.symbol_nr)
		return -ENOENT;
	name = symbol_table__name(&table, &table.symbol[index]);
	if (!name.len)
		return -ENOENT;
	*ret_name = strndup(name.bytes, name.len);
	return *ret_name ? 0 : -ENOMEM;
}

int elf_object__slot_function(const struct elf_object *obj, uint64_t vaddr, char **ret_name,
			      uint64_t *ret_resolver)
{
	const Elf64_Rela *relocation;
	struct dynamic dynamic;

	*ret_name = NULL;
	if (elf_object__load_dynamic(obj, &dynamic))
		return -ENOENT;
	relocation = find_relocation(obj, dynamic.tag[DT_JMPREL], dynamic.tag[DT_PLTRELSZ], vaddr) ?:
		     find_relocation(obj, dynamic.tag[DT_RELA], dynamic.tag[DT_RELASZ], vaddr);
	if (!relocation && !elf_object__is_dynamic(obj))
		relocation = find_static_relocation(obj, vaddr);
	if (!relocation)
		return -ENOENT;
	switch (relocation_of(obj, relocation)) {
	case RELOCATION_JUMP_SLOT:
	case RELOCATION_GLOB_DAT:
		return name_of_symbol(obj, ELF64_R_SYM(relocation->r_info), ret_name);
	case RELOCATION_IRELATIVE:
		*ret_resolver = relocation->r_addend;
		return 0;
	default:
		return -ENOENT;
	}
}

/* The address of a symbol that the file defines itself. */
static int defined_address(const struct elf_object *obj, size_t index, uint64_t *ret)
{
	struct symbol_table table = { 0 };

	if (elf_object__load_dynamic_symbols(obj, &table) || index >= table.symbol_nr ||
	    table.symbol[index].st_shndx == SHN_UNDEF)
		return -ENOENT;
	*ret = table.symbol[index].st_value;
	return 0;
}

int elf_object__pointer_at(const struct elf_object *obj, uint64_t vaddr, uint64_t *ret)
{
	const Elf64_Rela *relocation;
	struct dynamic dynamic;
	int err;

	if (elf_object__load_dynamic(obj, &dynamic))
		return -ENOENT;
	relocation = find_relocation(obj, dynamic.tag[DT_RELA], dynamic.tag[DT_RELASZ], vaddr);
	if (!relocation)
		return elf_object__read_at(obj, vaddr, ret, sizeof(*ret)) == sizeof(*ret) ? 0 : -ENOENT;
	switch (relocation_of(obj, relocation)) {
	case RELOCATION_RELATIVE:
		*ret = relocation->r_addend;
		return 0;
	case RELOCATION_GLOB_DAT:
	case RELOCATION_ABSOLUTE:
		err = defined_address(obj, ELF64_R_SYM(relocation->r_info), ret);
		*ret += err ? 0 : relocation->r_addend;
		return err;
	default:
		return -ENOENT;
	}
}

int elf_object__pointers(const struct elf_object *obj, struct elf_pointer **ret, size_t *ret_nr)
{
	struct { struct elf_pointer *pointer; size_t pointer_nr, pointer_alloc; } found = {};
	struct dynamic dynamic;
	Elf_Data *data = NULL;
	uint64_t offset;
	int err = 0;

	if (!elf_object__load_dynamic(obj, &dynamic) && !elf_object__offset_of(obj, dynamic.tag[DT_RELA], &offset))
		data = elf_object__chunk(obj, offset, dynamic.tag[DT_RELASZ], ELF_T_RELA);
	for (size_t i = 0; data && i < data->d_size / sizeof(Elf64_Rela) && !err; i++) {
		const Elf64_Rela *relocation = (const Elf64_Rela *)data->d_buf + i;
		struct elf_pointer pointer = { relocation->r_offset, relocation->r_addend };

		if (relocation_of(obj, relocation) == RELOCATION_RELATIVE)
			err = array_push(&found, pointer, pointer);
	}
	if (err) {
		free(found.pointer);
		return err;
	}
	if (found.pointer_nr)
		qsort(found.pointer, found.pointer_nr, sizeof(*found.pointer), array_by_number);
	*ret = found.pointer;
	*ret_nr = found.pointer_nr;
	return 0;
}
