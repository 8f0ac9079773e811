/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ALLOCATORS_H
#define ALLOCSNAP_ELF_ALLOCATORS_H

/*
 * The table of allocators: it says which call shape each function has, and which domain the blocks
 * of each file belong to. To add a function or an allocator, add a row in allocators.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct elf_function;
struct probe_info;

struct allocator_function {
	const char *name;
	enum call_shape shape;
	const char *prefix; /* prefix of names that only one allocator uses; NULL: a common name */
	uint32_t domain;    /* the domain of that allocator; 0: the domain of the file's malloc */
	bool own; /* counts only if the file defines malloc or free, too: otherwise it is a wrapper, or no heap's */
	bool of_heap; /* the first argument is a heap; the arguments of the shape follow it */
	bool throws; /* exceptions leave it: its return address must stay as it is */
	bool restarts; /* it may jump back to its own entry, with the same arguments */
};

/* How many arguments a function of this shape has. */
unsigned int shape_argument_nr(enum call_shape shape);

/* Whether a call can return a block; whether it can free one. A realloc does both. */
bool shape_gives(enum call_shape shape);
bool shape_takes(enum call_shape shape);

extern const struct allocator_function allocator_functions[];
extern const size_t allocator_function_nr;

/*
 * An allocator is recognized by its functions' names (heap_functions()), else by the name of its file.
 * Domains are tracemalloc's: 0 is the C library's heap, 1 is reserved for mmap. The others are
 * stable numbers: snapshots contain them, so a number is never given to another allocator.
 */
struct allocator {
	const char *name;
	const char *object; /* fnmatch(3) pattern for the file's base name */
	uint32_t domain;
	bool is_c_library;
};

/* The allocator that a file's name stands for; never NULL: the last row matches everything. */
const struct allocator *allocator_of(const char *path);

/* The name of a domain of the table. The C library's heap is "malloc", whichever C library it is. */
const char *domain_name(uint32_t domain);

/* Whether the table has an allocator or a domain of this name. */
bool allocator_is_named(const char *name);

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
 * prefix. known_functions.h then decides about operator new.
 */

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
uint32_t heap_domain(const struct probe_info *probe_info, uint32_t i, const char *path);

/*
 * Whether programs seldom call a library's i-th function: the library has the common names, and
 * this function has none of them, but one of the allocator's own.
 */
bool heap_is_seldom_called(const struct probe_info *probe_info, uint32_t i);

#endif
