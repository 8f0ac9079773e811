// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "elf/elf_object_private.h"

#include <errno.h>
#include <string.h>

#define GNU_CHAIN_MAX (1u << 16)
#define NAME_BYTES_MAX 4096 /* longer names are none of ours, and comparing them would take too long */

static int symbol_table__load(struct symbol_table *table, const struct elf_object *obj,
			      uint64_t symbols, uint64_t symbol_nr, uint64_t strings,
			      uint64_t strings_size)
{
	Elf_Data *symbol_data, *string_data;

	if (!symbol_nr)
		return 0;
	symbol_data = elf_object__chunk(obj, symbols, symbol_nr * sizeof(Elf64_Sym), ELF_T_SYM);
	string_data = elf_object__chunk(obj, strings, strings_size, ELF_T_BYTE);
	if (!symbol_data || !string_data)
		return -ENOEXEC;
	*table = (struct symbol_table){
		.symbol = symbol_data->d_buf,
		.symbol_nr = symbol_nr,
		.strings = string_data->d_buf,
		.strings_size = strings_size,
	};
	return 0;
}

/*
 * A GNU hash table does not store the number of symbols: the last symbol is at the end of the chain
 * of the highest bucket. Undefined symbols come first and are not in the table.
 */
static int count_gnu_hashed(const struct elf_object *obj, uint64_t offset, uint64_t *ret_nr)
{
	uint32_t head[4], word; /* buckets, first symbol, 8-byte words of the filter, shift */
	uint64_t last = 0, at;
	Elf_Data *data;

	if (elf_object__read(obj, offset, head, sizeof(head)))
		return -ENOEXEC;
	at = offset + sizeof(head) + head[2] * 8ull;
	data = elf_object__chunk(obj, at, head[0] * 4ull, ELF_T_WORD);
	if (!data)
		return -ENOEXEC;
	for (uint32_t i = 0; i < head[0]; i++)
		if (((const uint32_t *)data->d_buf)[i] > last)
			last = ((const uint32_t *)data->d_buf)[i];
	*ret_nr = 0;
	if (last < head[1] || !last)
		return 0;
	at += head[0] * 4ull + (last - head[1]) * 4;
	for (uint32_t i = 0; i < GNU_CHAIN_MAX; i++) {
		if (elf_object__read(obj, at + i * 4ull, &word, sizeof(word)))
			break;
		*ret_nr = last + i + 1;
		if (word & 1)
			return 0;
	}
	return -ENOEXEC;
}

static int count_dynamic_symbols(const struct elf_object *obj, uint64_t hash, uint64_t gnu_hash,
				 uint64_t *ret_nr)
{
	uint32_t head[2]; /* buckets, symbols */
	uint64_t offset;

	*ret_nr = 0;
	if (!hash && !gnu_hash)
		return 0;
	if (elf_object__offset_of(obj, hash ?: gnu_hash, &offset))
		return -ENOEXEC;
	if (!hash)
		return count_gnu_hashed(obj, offset, ret_nr);
	if (elf_object__read(obj, offset, head, sizeof(head)))
		return -ENOEXEC;
	*ret_nr = head[1];
	return 0;
}

int elf_object__load_dynamic(const struct elf_object *obj, struct dynamic *dynamic)
{
	GElf_Phdr segment;
	Elf_Data *data;
	GElf_Dyn entry;

	memset(dynamic, 0, sizeof(*dynamic));
	if (!elf_object__segment(obj, PT_DYNAMIC, &segment))
		return 0;
	data = elf_object__chunk(obj, segment.p_offset, segment.p_filesz, ELF_T_DYN);
	for (int i = 0; data && gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; i++)
		if (entry.d_tag > 0 && entry.d_tag < DT_NUM)
			dynamic->tag[entry.d_tag] = entry.d_un.d_val;
		else if (entry.d_tag == DT_GNU_HASH)
			dynamic->gnu_hash = entry.d_un.d_ptr;
	return data ? 0 : -ENOEXEC;
}

int elf_object__load_dynamic_symbols(const struct elf_object *obj, struct symbol_table *table)
{
	uint64_t symbol_nr, symbols, strings;
	struct dynamic dynamic;
	int err;

	err = elf_object__load_dynamic(obj, &dynamic);
	if (!err)
		err = count_dynamic_symbols(obj, dynamic.tag[DT_HASH], dynamic.gnu_hash,
					    &symbol_nr);
	if (err || !symbol_nr)
		return err;
	if (elf_object__offset_of(obj, dynamic.tag[DT_SYMTAB], &symbols) ||
	    elf_object__offset_of(obj, dynamic.tag[DT_STRTAB], &strings))
		return -ENOEXEC;
	return symbol_table__load(table, obj, symbols, symbol_nr, strings, dynamic.tag[DT_STRSZ]);
}

int elf_object__load_section_symbols(const struct elf_object *obj, uint32_t type,
				     struct symbol_table *table)
{
	GElf_Shdr section, strings;
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(obj->elf, scn)) && gelf_getshdr(scn, &section)) {
		if (section.sh_type != type)
			continue;
		if (!gelf_getshdr(elf_getscn(obj->elf, section.sh_link), &strings))
			return -ENOEXEC;
		return symbol_table__load(table, obj, section.sh_offset,
					  section.sh_size / sizeof(Elf64_Sym), strings.sh_offset,
					  strings.sh_size);
	}
	return 0;
}

struct name_key symbol_table__name(const struct symbol_table *table, const Elf64_Sym *symbol)
{
	struct name_key name = { .bytes = "" };
	const char *bytes;
	size_t left;

	if (symbol->st_name >= table->strings_size)
		return name;
	bytes = table->strings + symbol->st_name;
	left = table->strings_size - symbol->st_name;
	if (!memchr(bytes, 0, left < NAME_BYTES_MAX ? left : NAME_BYTES_MAX))
		return name;
	name.bytes = bytes;
	name.len = strchrnul(bytes, '@') - bytes;
	return name;
}
