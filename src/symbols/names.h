/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_NAMES_H
#define ALLOCSNAP_SYMBOLS_NAMES_H

/*
 * Names as compilers and linkers write them → names for people. The caller frees them; NULL: no
 * memory.
 */

/*
 * A function: without a symbol version ("@@GLIBC_2.2.5") and without what the compiler appends
 * to its copies (".cold", ".constprop.0", ".isra.1"), so that all parts of one function have
 * one name whether or not there is debug information, then demangled.
 */
char *function_name(const char *raw);

/*
 * A source file, below the directory where the compiler ran (NULL: not known) if it is relative
 * to that: "./" and doubled slashes go. ".." stays, for what it leads to depends on symbolic
 * links of the machine that compiled.
 */
char *source_name(const char *directory, const char *raw);

#endif
