/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_LINES_H
#define ALLOCSNAP_ELF_PYTHON_LINES_H

/*
 * Line tables and strings of CPython, copied from a process: any bytes. CPython's Objects/lnotab_notes.txt and
 * InternalDocs/code_objects.md describe the tables.
 */

#include <stddef.h>
#include <stdint.h>

#include "shared/python_types.h"

enum python_lines {
	PYTHON_LNOTAB = 0, /* until 3.9: pairs of bytes: instructions, lines */
	PYTHON_LINETABLE,  /* 3.10: the same, but for ranges that may have no line */
	PYTHON_LOCATIONS,  /* from 3.11 on: entries of different lengths */
	PYTHON_LINES_NR,
};

enum python_lines python_lines_of(struct python_version version);

#define PYTHON_NO_LINE (-1)

/*
 * The line of an instruction, as PyCode_Addr2Line() says it. The instruction is counted from the first one, in bytes
 * until 3.9, then in units of two bytes; less than 0: not begun, first_line. PYTHON_NO_LINE: the table has none.
 */
int32_t python_line(enum python_lines kind, const void *table, size_t bytes, int32_t first_line, int64_t instruction);

/*
 * The characters of a string, of 1, 2 or 4 bytes as its state says, as UTF-8 with a NUL. What is no text is spelled so
 * that different strings stay different, as tracemalloc-to-json spells it: a byte that Python could not decode (a surrogate
 * from 0xdc80 on) and a NUL as \xNN, another surrogate as its three bytes, and a backslash in front of what looks so as
 * \x5c. Six bytes for each that is read are enough. Stops before a character that does not fit into the room, which is at
 * least 1. Returns the length; *ret_used, which may be NULL, gets the bytes that were read.
 */
size_t python_text(uint32_t state, const void *bytes, size_t nr, char *to, size_t room, size_t *ret_used);

#endif
