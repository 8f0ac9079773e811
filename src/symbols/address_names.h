/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_ADDRESS_NAMES_H
#define ALLOCSNAP_SYMBOLS_ADDRESS_NAMES_H

/*
 * Converts names from compilers and linkers into readable names. The caller frees them; NULL: out
 * of memory.
 */

/*
 * The readable name of a function. It drops the symbol version ("@@GLIBC_2.2.5") and the suffixes
 * of the compiler's copies (".cold", ".constprop.0", ".isra.1"), then demangles. So all parts of
 * one function have the same name, with or without debug information.
 */
char *function_name(const char *raw);

/*
 * The readable name of a source file. A relative name is put below the directory where the compiler
 * ran (NULL: not known). "./" and doubled slashes are dropped. ".." stays, because its meaning
 * depends on symbolic links of the machine that compiled.
 */
char *source_name(const char *directory, const char *raw);

#endif
