/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_HEAP_H
#define ALLOCSNAP_ELF_HEAP_H

/*
 * A file has functions with the names of an allocator's (allocator_functions[]): are they one's, and
 * whose?
 *
 * Functions that others can call by name are. One that is local may be any function that somebody
 * has called malloc; or the linker has made the heap's own local: a static PIE's (glibc's malloc), with
 * --exclude-libs, by a version script. Binding, visibility and the order of the symbols tell these
 * apart with no linker for sure. What does is that a heap is whole: the file has malloc,
 * free, calloc and realloc (with the same prefix), each at one address and each at another one,
 * whatever their binding. Then a local function is taken if the file has no other one of its name.
 *
 * A private heap that is whole is recorded like any other: what it gives out is blocks, too.
 *
 * Some names (operator new, tc_new) mean a heap only beside a malloc or free with the same prefix.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_function;
struct object_facts;

/*
 * Leaves the functions that are an allocator's, in their order, and returns how many they are. As
 * elf_object__find_functions() has found them for allocator_functions[]: sorted by name.
 */
size_t heap_functions(struct elf_function *function, size_t nr);

/*
 * The domain of a file's i-th function. A name that only one allocator has tells it. All functions
 * with common names are the allocator's that malloc is of: the one that has another name for it,
 * too (tc_malloc, mi_malloc); jemalloc if its mallocx is there; else the one that the file is
 * called after (allocator_of()).
 */
uint32_t heap_domain(const struct object_facts *facts, uint32_t i, const char *path);

/*
 * Whether a library's i-th function is one that programs seldom call: the library has the common
 * names, and this function has none of them, but one of the allocator's own.
 */
bool heap_is_seldom_called(const struct object_facts *facts, uint32_t i);

#endif
