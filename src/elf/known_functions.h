/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_KNOWN_FUNCTIONS_H
#define ALLOCSNAP_ELF_KNOWN_FUNCTIONS_H

/*
 * Finds the allocator functions of a file: rows of allocator_functions[] that are a heap's, and functions of
 * allocators under prefixes that their projects have chosen, such as je_arrow_malloc. Such a heap is whole, and has
 * functions that only this allocator has (je_arrow_mallocx). Its functions are rows of the table (je_mallocx) that have
 * another prefix in the file.
 */

#include <stdbool.h>
#include <stddef.h>

#include "elf/elf_object.h"
#include "elf/probe_info.h"

struct elf_object;

struct known_functions {
	struct elf_function *function; /* sorted by name, an index as in struct object_function, then address */
	size_t function_nr, function_alloc;
	char prefix[HEAP_PREFIXES_MAX][ELF_PREFIX_MAX]; /* of those that are renamed */
	size_t prefix_nr;
	bool has_more_heaps; /* or may have: more prefixes than are looked at */
};

/*
 * wanted: other functions to find, also if the table has their names, but the file's are no heap's. NULL: none.
 * 0, or errors as from elf_object__find_functions(). To be released if 0.
 */
int known_functions_find(struct elf_object *elf, const struct functions_wanted *wanted, struct known_functions *ret);
void known_functions_release(struct known_functions *known);

/*
 * Decides whether a file's operator new and delete belong to the heap in that file. They may be the program's or
 * libstdc++'s, and give out blocks of the heap behind a header, or memory of their own. The C library has no operators,
 * so none in its file is the heap's. The operators of another allocator (jemalloc, tcmalloc) do not call its malloc.
 * If they do, or call an operator that does, they are wrappers, and their blocks are recorded in malloc.
 *
 * The code is read as far as calls and jumps have fixed targets, or go through the PLT.
 */

/*
 * Whether the file defines an operator new that is no heap's and calls no allocator function of any file by name: it may
 * give out memory of its own, or call an allocator by a pointer. 0, -ENOMEM; *ret is false if the code cannot be read.
 */
int heap_owner_has_pool(struct elf_object *elf, bool *ret);

#endif
