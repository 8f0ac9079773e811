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

/* Domains of allocators with names of their own: see struct allocator. */
#define DOMAIN_JEMALLOC 2
#define DOMAIN_TCMALLOC 3
#define DOMAIN_MIMALLOC 4

struct allocator_function {
	const char *name;
	enum call_shape shape;
	const char *prefix; /* prefix of names that only one allocator uses; NULL: a common name */
	uint32_t domain;    /* the domain of that allocator; 0: the domain of the file's malloc (allocator_detect.h) */
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
 * An allocator is recognized by its functions' names (allocator_detect.h), else by the name of its file.
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

#endif
