/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_TEXT_COPIES_H
#define ALLOCSNAP_ELF_TEXT_COPIES_H

/*
 * Signs that an object copies its code at run time, mostly to anonymous memory with huge pages. The
 * copy includes breakpoints of probes, but the kernel does not know those in the copy: SIGTRAP ends
 * the process.
 *
 * The search reads the file's bytes, so it also looks for texts of an allocator that is linked in.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_object;

enum text_copy_kind {
	TEXT_COPY_SYMBOL, /* a whole name, defined or referenced */
	TEXT_COPY_CALL,	  /* a call of that function, defined in the file itself, with MREMAP_FIXED */
	TEXT_COPY_BYTES,  /* a text anywhere in the file */
};

struct text_copy {
	const char *sign;
	const char *what; /* "as ClickHouse's remap_executable does" */
	enum text_copy_kind kind;
};

extern const struct text_copy text_copies[];
extern const size_t text_copy_nr;

/*
 * The first sign in an object. has_allocator: the object defines allocator functions, so that calls
 * and the guess count, too. If it defines none, *ret_heap is the domain of an allocator whose texts
 * it has; else 0. 0; -ENOENT, -ENOMEM, -ENOEXEC as from elf_object__find_name().
 */
int text_copy_find(struct elf_object *elf, bool has_allocator, size_t *ret_index, uint32_t *ret_heap);

#endif
