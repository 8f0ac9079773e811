/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_CUSTOM_ALLOCATORS_H
#define ALLOCSNAP_ELF_CUSTOM_ALLOCATORS_H

/*
 * Allocators that only who records knows of, such as a program's own pool. Each is told in a line:
 *
 *	name=pool,object=libpool.so*,alloc=pool_alloc(size=2),free=pool_free(ptr=2)
 *
 *	name=NAME	what its domain is called: [A-Za-z0-9._-]
 *	object=FILE	who defines the functions: the path as it is mapped, or fnmatch(3) patterns of it
 *			or of its base name; `exe` is the program itself
 *	alloc=SYM(…)	gives out a block of `size=` bytes, of `count=` times as many, or always of
 *			`bytes=`; returns it or, with `out=`, 0 when it has stored it where that points
 *	realloc=SYM(…)	moves the block `ptr=` to one of `size=` bytes, or `count=` times as many
 *	free=SYM(…)	takes the block `ptr=` back
 *	throws		C++ exceptions leave its functions; known of those whose symbol is C++'s (_Z…)
 *	wraps		its blocks are malloc's, made larger perhaps: malloc inside it does not count
 *
 * size=, count=, ptr= and out= are positions of arguments, from 1 to 6; bytes= is a number of bytes.
 * A size or count whose C type is int or unsigned is told so: size=2:32. Callers leave anything in the
 * upper half of its register; without the width that would be part of the size.
 * Functions come in any number and order; at least one gives out blocks and one takes them back,
 * which a realloc does both. Symbols are the file's own, static ones too, as nm(1) prints them. A
 * comma ends FILE. A realloc to 0 bytes that returns NULL has freed its block.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "shared/bpf_types.h"
#include "elf/object_facts.h"

#define CUSTOM_NAME_MAX 32

struct custom_function {
	char *symbol;
	enum call_shape shape;
	struct custom_call call;
	uint32_t allocator; /* index */
	uint32_t wanted;    /* index */
};

struct custom_allocator {
	char *name, *object;
	bool throws, wraps;
};

/* Zeroed: none. An allocator's domain is DOMAIN_CUSTOM + its index. */
struct custom_allocators {
	struct custom_allocator *allocator;
	size_t allocator_nr, allocator_alloc;
	struct custom_function *function; /* of all of them */
	size_t function_nr, function_alloc;
	struct functions_wanted wanted; /* what to look for in files */
};

/* Adds the allocator of a SPEC. 0, -ENOMEM, or -EINVAL with a line in *why that says what is wrong. */
int custom_allocators_add(struct custom_allocators *custom, const char *spec, struct reason *why);
void custom_allocators_release(struct custom_allocators *custom);

/* Whether it is this file that defines the functions of allocator number i. */
bool custom_allocator_is_in(const struct custom_allocator *allocator, const char *path, bool is_exe);

/* Whether exceptions may leave it: a return address must then stay as it is, else they end the program. */
bool custom_function_throws(const struct custom_allocators *custom, size_t i);

/* Whether this file may define functions of one of them: which may be the program is not known. */
bool custom_allocators_may_be_in(const struct custom_allocators *custom, const char *path);

#endif
