/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_ALLOCATORS_H
#define ALLOCSNAP_ELF_ALLOCATORS_H

/*
 * What we know of allocators: which function has which call shape, and which file's blocks
 * belong to which domain. To add a function or an allocator, add a row in allocators.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bpf_types.h"

struct allocator_function {
	const char *name;
	enum call_shape shape;
	const char *prefix; /* what a name that only one allocator has begins with; NULL: a common name */
	uint32_t domain;    /* of such an allocator; 0: whose the file's malloc is (heap.h) */
	bool own; /* only in a file that defines malloc or free, too: elsewhere it is a wrapper, or no heap's */
	bool of_heap; /* the first argument is a heap, those of the shape come behind it */
	bool throws; /* exceptions leave it: its return address must stay as it is */
	bool restarts; /* it may come to its own begin by a jump, with the same arguments */
};

/* How many arguments a function of this shape has. */
unsigned int shape_argument_nr(enum call_shape shape);

/* Whether a call can give out a block; take one back. A realloc does both. */
bool shape_gives(enum call_shape shape);
bool shape_takes(enum call_shape shape);

extern const struct allocator_function allocator_functions[];
extern const size_t allocator_function_nr;

/*
 * An allocator is known by its functions' names (heap.h), else by that of their file. Domains are
 * tracemalloc's: 0 is the C library's heap, 1 is kept for mmap, the rest are stable numbers
 * that end up in snapshots and are never given to another allocator.
 */
struct allocator {
	const char *name;
	const char *object; /* fnmatch(3) pattern on the file's base name */
	uint32_t domain;
	bool is_c_library;
};

/* The allocator that a file's name says it is; never NULL, the last row matches everything. */
const struct allocator *allocator_of(const char *path);

/* What a domain of the table is called: the heap's is "malloc", whichever C library it is. */
const char *domain_name(uint32_t domain);

/* Whether a name is that of an allocator in the table, or of a domain. */
bool allocator_is_named(const char *name);

#endif
