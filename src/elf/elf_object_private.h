/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ELF_OBJECT_PRIVATE_H
#define ALLOCSNAP_ELF_ELF_OBJECT_PRIVATE_H

/* Shared by the files of elf_object: elf_object.c, elf_code.c, elf_functions.c. */

#include <gelf.h>

#include "elf/elf_object.h"

#define ELF_BUILD_ID_MAX 64
#define ELF_TABLE_MAX (128u << 20) /* limit for the bytes of one table */

struct elf_object {
	int fd;
	Elf *elf;
	GElf_Ehdr header;
	size_t segment_nr;
	uint64_t file_size;
	char build_id[2 * ELF_BUILD_ID_MAX + 1];
};

/* A part of the file as an array of `type`, valid as long as obj; NULL if the file does not have it. */
Elf_Data *elf_object__chunk(const struct elf_object *obj, uint64_t offset, uint64_t size,
			    Elf_Type type);

/* The first segment of a type. */
bool elf_object__segment(const struct elf_object *obj, uint32_t type, GElf_Phdr *ret);

/* ---- symbol tables; all zero if the file has none ---- */

struct symbol_table {
	const Elf64_Sym *symbol;
	size_t symbol_nr;
	const char *strings;
	size_t strings_size;
};

/* The tables that PT_DYNAMIC points to; all zero if the file has no PT_DYNAMIC. */
struct dynamic {
	uint64_t tag[DT_NUM];
	uint64_t gnu_hash;
};

struct name_key {
	const char *bytes;
	size_t len;
};

int elf_object__load_dynamic(const struct elf_object *obj, struct dynamic *dynamic);
int elf_object__load_dynamic_symbols(const struct elf_object *obj, struct symbol_table *table);

/* Loads the first section of a type: SHT_DYNSYM or SHT_SYMTAB. The caller zeroes *table before. */
int elf_object__load_section_symbols(const struct elf_object *obj, uint32_t type,
				     struct symbol_table *table);

/* The symbol's name without its version; len 0 if it has no name, or a name without an end. */
struct name_key symbol_table__name(const struct symbol_table *table, const Elf64_Sym *symbol);

#endif
