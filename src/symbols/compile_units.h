/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_COMPILE_UNITS_H
#define ALLOCSNAP_SYMBOLS_COMPILE_UNITS_H

/*
 * The compilation units of one DWARF: address → line, function and the calls inlined there.
 *
 *	address ──► unit ──► function ──► inlined call ──► inlined call
 *	(ranges)    (read at first use)   (its call_line is the line in the frame around it)
 *
 * libdw's own address → unit search needs .debug_aranges, which clang does not write, and its
 * dwarf_getscopes() walks a whole unit for every address. So this indexes units and functions.
 *
 * The DWARF may be hostile: dies are only walked forward, so that a unit costs no more than its
 * length. Split DWARF: libdw would open the .dwo file that a skeleton unit names, at any path. So
 * only the lines of skeleton units are used; they need only the skeleton.
 */

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct units;

/* One frame in the strings of libdw, or of another source of names; NULL and 0: not known. */
struct place {
	const char *linkage_name; /* mangled; NULL for C */
	const char *name;
	bool is_as_written;	  /* the name is readable as it is */
	bool is_outermost;	  /* the function around all inlined calls */
	const char *directory;	  /* where the compiler ran; the base of a relative filename */
	const char *filename;
	uint32_t lineno;
	const char *decl_directory, *decl_filename; /* where the function is declared, in the same form */
	uint32_t decl_line;
};

/* NULL and errno ENOMEM on failure. The caller keeps dwarf, which must outlive the units. */
struct units *units__new(Dwarf *dwarf);
void units__free(struct units *units);

/*
 * The frames at an instruction, innermost first; beyond max the outermost are left out. 0 if the
 * address belongs to no unit, or -ENOMEM.
 */
int units__lookup(struct units *units, uint64_t address, struct place *ret_place, int max);

#endif
