/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_SYMBOL_OBJECT_H
#define ALLOCSNAP_SYMBOLS_SYMBOL_OBJECT_H

/*
 * One ELF file, with its debug file if there is one. The first lookup reads symbols and DWARF.
 * libdwfl gets the open file and never a name, gets its debug files from debug_file.h, and never
 * contacts debuginfod.
 */

#include <stdint.h>

#include "base/reason.h"
#include "symbols/compile_units.h"
#include "symbols/symbols.h"

struct object;
struct debug_opener;

/* The limit for the decompressed size that an object's compressed sections claim, in all. */
#define OBJECT_UNPACKED_MAX (2ull << 30)

/*
 * The caller keeps fd; opener must live as long as the object. A file that is no ELF program or
 * library gives an object without names. NULL and errno on failure: ENOMEM; EIO with a line in *why
 * if the sections would decompress to too much.
 */
struct object *object__open(int fd, const char *path, const struct debug_opener *opener,
			    struct reason *why);
void object__close(struct object *object);

/*
 * The frames at the call before a return address; at least one. A function's name is in
 * linkage_name or, if that is NULL, in name. Returns their number, or -ENOMEM.
 */
int object__lookup(struct object *object, uint64_t return_offset,
		   struct place ret_place[SYMBOL_INLINE_MAX]);

#endif
