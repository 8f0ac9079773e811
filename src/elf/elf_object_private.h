/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_OBJECT_PRIVATE_H
#define ALLOCSNAP_ELF_OBJECT_PRIVATE_H

/* What elf_object.c and elf_functions.c share; nobody else includes this. */

#include <gelf.h>

#include "elf/elf_object.h"

#define ELF_BUILD_ID_MAX 64
#define ELF_TABLE_MAX (128u << 20) /* bytes of one table that we are willing to read */

struct elf_object {
	int fd;
	Elf *elf;
	GElf_Ehdr header;
	size_t segment_nr;
	uint64_t file_size;
	char build_id[2 * ELF_BUILD_ID_MAX + 1];
};

/* That part of the file as an array of `type`, living as long as obj; NULL if the file has none. */
Elf_Data *elf_object__chunk(const struct elf_object *obj, uint64_t offset, uint64_t size,
			    Elf_Type type);

/*
 * Where vaddr lies in the file, in a PT_LOAD segment that has all these flags, and how many
 * bytes of that segment follow. 0 or -ENOENT.
 */
int elf_object__locate(const struct elf_object *obj, uint64_t vaddr, uint32_t flags,
		       uint64_t *ret_offset, uint64_t *ret_left);

/* The first segment of a type. */
bool elf_object__segment(const struct elf_object *obj, uint32_t type, GElf_Phdr *ret);

#endif
