/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_SYMTAB_H
#define ALLOCSNAP_SYMBOLS_SYMTAB_H

/*
 * The function symbols of a module, sorted. libdwfl finds the best table (.symtab of the file or of
 * its debug file; .dynsym with .gnu_debugdata), but searches the whole table for every address.
 *
 * A symbol names an address only if it contains the address. In a stripped file a static function
 * lies between exported ones: it gets no name instead of the name of the symbol before it.
 *
 * Symbols of size 0 (hand-written assembly) extend to the next symbol or the end of their section.
 * They count only if no sized symbol contains the address, and only in a table that has local
 * functions. A table without local functions may come from a stripped file, where any code may
 * follow the symbol.
 *
 * Among several names at one address the order is: the longest symbol, then fewest leading
 * underscores, global before weak before local, the shorter name, the first in byte order
 * ("malloc", not "__libc_malloc").
 */

#include <elfutils/libdwfl.h>

#include "symbols/ranges.h"

struct symtab {
	struct ranges sized, unsized; /* ids are indices in name */
	const char **name;	      /* the module's strings */
	size_t name_nr, name_alloc;
};

/* Fills a zeroed symtab. A module without symbols gives an empty one. 0 or -ENOMEM. */
int symtab_load(struct symtab *symtab, Dwfl_Module *module);

/* The name as it is in the symbol table, or NULL; the address is the module's (libdwfl's). */
const char *symtab_find(const struct symtab *symtab, uint64_t address);

void symtab_release(struct symtab *symtab);

#endif
