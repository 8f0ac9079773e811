/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_TEXT_COPIES_H
#define ALLOCSNAP_ELF_TEXT_COPIES_H

/*
 * What only objects have that copy code while it runs, mostly to anonymous memory with huge pages. A
 * breakpoint is copied with it, and in the copy the kernel knows nothing of it: SIGTRAP ends the process.
 */

#include <stdbool.h>
#include <stddef.h>

struct elf_object;

enum text_copy_kind {
	TEXT_COPY_SYMBOL, /* a whole name, defined or wanted */
	TEXT_COPY_CALL,	  /* a call of that function, which the file defines, with MREMAP_FIXED */
	TEXT_COPY_BYTES,  /* anywhere in the file */
};

struct text_copy {
	const char *sign;
	const char *what; /* "as ClickHouse's remap_executable does" */
	enum text_copy_kind kind;
};

extern const struct text_copy text_copies[];
extern const size_t text_copy_nr;

/*
 * The first that an object has. has_allocator: it defines allocator functions, so that a guess counts, too. 0; -ENOENT,
 * -ENOMEM, -ENOEXEC as from elf_object__find_name().
 */
int text_copy_find(struct elf_object *elf, bool has_allocator, size_t *ret_index);

#endif
