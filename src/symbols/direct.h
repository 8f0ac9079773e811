/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_DIRECT_H
#define ALLOCSNAP_SYMBOLS_DIRECT_H

/*
 * Reads objects in the calling process. A hostile file can exploit libdw there, so a process with
 * privileges leaves the reading to a process that has none (sandbox/client.h).
 */

#include "symbols/symbols.h"

struct direct;
struct debug_opener;

/* NULL and errno ENOMEM on failure. opener must outlive the source. */
struct direct *direct__new(const struct debug_opener *opener);
void direct__free(struct direct *direct);

/* symbol_source's look_up; strings live as long as `self`, a struct direct. */
int direct__look_up(void *self, const struct source_object *object, const uint64_t *return_offset,
		    size_t nr, take_frames_fn take, void *taker, struct reason *why);

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
