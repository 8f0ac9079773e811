/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_GO_TABLE_H
#define ALLOCSNAP_SYMBOLS_GO_TABLE_H

/*
 * The table that Go's runtime has of its own code (.gopclntab): functions, files, lines and inlined calls. Go's linker
 * puts it into each program, and no strip takes it out. So a stripped program has the names of one that is not.
 *
 *	header ──► rows: address, function ──► function: its name, and where its number lists are
 *	                                        number lists: address → file, line, inlined call
 *
 * Nothing names the table: it is searched for by the magic number that it begins with, and counts if all its rows agree
 * with each other and with the runtime's description of the program (moduledata, since Go 1.5), which points to the table and,
 * since Go 1.18, has the address of the code. Four layouts: Go 1.2, 1.16, 1.18 and 1.20, each up to the next.
 *
 * Inlined calls are known since Go 1.12. Their place differs between versions, and no number says which: the place
 * counts at which the calls of all functions make sense. If no place does, an address where a call was inlined has the
 * function around it, without a line. Before Go 1.12 it has the line of the inlined call, as Go's own tools say.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbols/compile_units.h"

struct elf_object;
struct go_table;

/* Takes over elf, in any case. 0, and NULL in *ret if the file has no such table; or -ENOMEM. */
int go_table__open(struct elf_object *elf, struct go_table **ret);
void go_table__free(struct go_table *table); /* NULL is allowed */

/* A word of the runtime's description of the program, as the loader leaves it; 0: its layout is not known (before Go 1.18). */
enum go_word {
	GO_CODE = 22, /* and the end of the code behind it; so with all that follow */
	GO_DATA_PLAIN = 24, /* variables without pointers */
	GO_DATA = 26,
	GO_ZEROED = 28,
	GO_ZEROED_PLAIN = 30,
};
uint64_t go_table__word(const struct go_table *table, unsigned int word);

/* Where the table lies, and the description. */
void go_table__places(const struct go_table *table, uint64_t *ret_table, uint64_t *ret_module);

/* The code of function number `at`, by address, and its name or NULL; false: there are not so many. */
bool go_table__function(const struct go_table *table, size_t at, const char **ret_name, uint64_t *ret_start, uint64_t *ret_end);

/*
 * The frames at an instruction, innermost first; beyond max the outermost are left out. Their strings are the table's.
 * 0: the address lies in no function of the table.
 */
int go_table__lookup(const struct go_table *table, uint64_t address, struct place *ret_place, int max);

#endif
