/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_OBJECT_H
#define ALLOCSNAP_SYMBOLS_OBJECT_H

/*
 * One ELF file, with its debug file where there is one. Symbols and DWARF are read at the first
 * lookup. libdwfl is given the open file and never a name, has its debug files from
 * debug_file.h, and never reaches debuginfod.
 */

#include <stdint.h>

#include "symbols/symbols.h"
#include "symbols/units.h"

struct object;

/*
 * fd stays the caller's; debug_root_fd must stay open as long as the object. A file that is no
 * ELF program or library gives an object without names. NULL and errno ENOMEM on failure.
 */
struct object *object__open(int fd, const char *path, int debug_root_fd);
void object__close(struct object *object);

/*
 * The frames at the call before a return address; at least one. Function names are in
 * linkage_name or else in name. Their number, or -ENOMEM.
 */
int object__lookup(struct object *object, uint64_t return_offset,
		   struct place ret_place[SYMBOL_INLINE_MAX]);

#endif
