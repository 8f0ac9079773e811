/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ALLOCATOR_DETECT_H
#define ALLOCSNAP_ELF_ALLOCATOR_DETECT_H

/*
 * A file defines functions with an allocator's names (allocator_functions[]). This decides whether
 * they really are an allocator's, and which one's.
 *
 * Functions that other files can call by name are. A local function may be an unrelated function
 * that is called malloc. Or the linker has made the heap's own functions local: in a static PIE
 * (glibc's malloc), with --exclude-libs, by a version script. Binding, visibility and the order of
 * the symbols do not tell the two cases apart for every linker. But a heap is complete: the file
 * has malloc, free, calloc and realloc (with the same prefix), each at exactly one address and all
 * at different ones, whatever their binding. In such a file a local function is accepted if the
 * file has no other one of its name.
 *
 * A private heap that is complete is recorded like any other: its blocks are blocks, too.
 *
 * Some names (operator new, tc_new) indicate a heap only beside a malloc or free with the same
 * prefix. heap_owner.h then decides about operator new.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_function;
struct probe_info;

/*
 * Says which functions are an allocator's. The array comes from elf_object__find_functions() with
 * allocator_functions[]: sorted by name.
 */
void heap_functions(const struct elf_function *function, size_t nr, bool *ret_taken);

/* Whether the functions with this prefix in the table are a whole heap. */
bool heap_functions_are_whole(const struct elf_function *function, size_t nr, const char *prefix);

/*
 * The domain of a file's i-th function. A name that only one allocator uses decides it. All
 * functions with common names belong to the same allocator as malloc: the allocator that has
 * another name for malloc (tc_malloc, mi_malloc); jemalloc if mallocx is there; else the allocator
 * that the file's name stands for (allocator_of()).
 */
uint32_t heap_domain(const struct probe_info *facts, uint32_t i, const char *path);

/*
 * Whether programs seldom call a library's i-th function: the library has the common names, and
 * this function has none of them, but one of the allocator's own.
 */
bool heap_is_seldom_called(const struct probe_info *facts, uint32_t i);

#endif
