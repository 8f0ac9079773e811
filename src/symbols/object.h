/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_OBJECT_H
#define ALLOCSNAP_SYMBOLS_OBJECT_H

/*
 * One ELF file, with its debug file where there is one. Symbols and DWARF are read at the first
 * lookup. libdwfl is given the open file and never a name, has its debug files from
 * debug_file.h, and never reaches debuginfod.
 */

#include <stdint.h>

#include "base/reason.h"
#include "symbols/symbols.h"
#include "symbols/units.h"

struct object;
struct debug_opener;

/* What compressed sections of an object may claim to unpack to, all together. */
#define OBJECT_UNPACKED_MAX (2ull << 30)

/*
 * fd stays the caller's; opener must live as long as the object. A file that is no ELF program or
 * library gives an object without names. NULL and errno on failure: ENOMEM; EIO with a line in *why
 * for what would unpack to too much.
 */
struct object *object__open(int fd, const char *path, const struct debug_opener *opener,
			    struct reason *why);
void object__close(struct object *object);

/*
 * The frames at the call before a return address; at least one. Function names are in
 * linkage_name or else in name. Their number, or -ENOMEM.
 */
int object__lookup(struct object *object, uint64_t return_offset,
		   struct place ret_place[SYMBOL_INLINE_MAX]);

#endif
