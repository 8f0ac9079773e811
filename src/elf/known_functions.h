/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_KNOWN_FUNCTIONS_H
#define ALLOCSNAP_ELF_KNOWN_FUNCTIONS_H

/*
 * Finds the allocator functions of a file: those of allocator_functions[] that are a heap's (heap_owner.h), and those
 * of allocators under prefixes that their projects have chosen, such as je_arrow_malloc. Such a heap is whole, and has
 * functions that only this allocator has (je_arrow_mallocx). Its functions are rows of the table (je_mallocx) that have
 * another prefix in the file.
 */

#include <stddef.h>

#include "elf/elf_object.h"
#include "elf/probe_info.h"

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
 * All functions with names of allocator_functions[], whether they are a heap's or not, and the wanted ones; prefixes: as
 * for elf_object__find_functions_and_prefixes(), or NULL. *ret is to be freed.
 */
int known_functions_find_named(struct elf_object *elf, const struct functions_wanted *wanted,
			       struct elf_prefixes *prefixes, struct elf_function **ret, size_t *ret_nr);

#endif
