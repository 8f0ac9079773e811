/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_HEAP_OWNER_H
#define ALLOCSNAP_ELF_HEAP_OWNER_H

/*
 * Decides whether a file's operator new and delete belong to the heap in that file. They may be the program's or
 * libstdc++'s, and give out blocks of the heap behind a header, or memory of their own. The C library has none, so none
 * in its file are the heap's. Those of another allocator (jemalloc, tcmalloc) do not call its malloc. If they do, or
 * call an operator that does, they are wrappers, and their blocks are recorded in malloc.
 *
 * The code is read as far as calls and jumps have fixed targets, or go through the PLT.
 */

#include <stdbool.h>
#include <stddef.h>

struct elf_function;
struct elf_object;

/* The same as heap_functions() (allocator_detect.h), without the functions that are not the heap's. 0, -ENOMEM. */
int heap_functions_read(struct elf_object *elf, const struct elf_function *function, size_t nr, bool *ret_taken);

/*
 * Whether the file defines an operator new that is no heap's and calls no allocator function of any file by name: it may
 * give out memory of its own, or call an allocator by a pointer. 0, -ENOMEM; *ret is false if the code cannot be read.
 */
int heap_owner_has_pool(struct elf_object *elf, bool *ret);

#endif
