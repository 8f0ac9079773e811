/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_USER_ALLOCATORS_H
#define ALLOCSNAP_ELF_USER_ALLOCATORS_H

/*
 * User allocators, such as a program's own pool. The user describes each in one line:
 *
 *	name=pool,object=libpool.so*,alloc=pool_alloc(size=2),free=pool_free(ptr=2)
 *
 *	name=NAME	the name of its domain: [A-Za-z0-9._-]
 *	object=FILE	the file that defines the functions: its path as it is mapped, or an fnmatch(3)
 *			pattern of the path or of the base name; `exe` is the program itself
 *	alloc=SYM(…)	allocates a block of `size=` bytes, multiplied by `count=`, or a fixed number of
 *			bytes (`bytes=`). It returns the block. With `out=`, it stores the block where
 *			that argument points and returns 0
 *	realloc=SYM(…)	moves the block `ptr=` to one of `size=` bytes, multiplied by `count=`
 *	free=SYM(…)	frees the block `ptr=`
 *	throws		C++ exceptions leave its functions; implied for C++ symbols (_Z…)
 *	wraps		its blocks come from malloc, possibly enlarged: malloc inside it does not count
 *
 *	alloc=usdt:PROVIDER:NAME(…), free=usdt:PROVIDER:NAME(…)
 *			USDT probes in place of functions: the program passes one when it has given out the block
 *			`ptr=` of `size=` or `bytes=` bytes, and one before it takes the block `ptr=` back
 *
 * size=, count=, ptr= and out= are positions of arguments, from 1 to 6 (of a USDT probe 1 to 12); bytes= is a number of
 * bytes.
 * A size or count whose C type is int or unsigned needs its width: size=2:32. Callers may leave garbage
 * in the upper half of the register; without the width the garbage would be part of the size.
 * A line may have any number of functions in any order. At least one must allocate blocks and one must
 * free them; a realloc does both. Symbols are the file's own, including static ones, as nm(1) prints
 * them. A comma ends FILE. A realloc to 0 bytes that returns NULL has freed its block.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "elf/probe_info.h"
#include "shared/bpf_types.h"

#define USER_ALLOCATOR_NAME_MAX 32

/* Arguments of type int or unsigned: the upper half of their register may hold anything. */
enum narrow_argument {
	NARROW_SIZE = 1 << 0,
	NARROW_COUNT = 1 << 1,
};

/* Positions of a function's arguments, from 1; 0: no such argument. */
struct user_arguments {
	uint32_t size;
	uint32_t count;	  /* the factor of size */
	uint32_t pointer; /* the block that it takes, or where it stores the address of the new block */
	uint32_t narrow;  /* enum narrow_argument */
	uint64_t bytes;	  /* the size if no argument has it */
};

struct user_function {
	char *symbol;
	enum call_shape shape;
	struct user_arguments call;
	uint32_t allocator; /* index */
	uint32_t wanted;    /* index */
};

struct user_allocator {
	char *name, *object;
	bool throws, wraps;
};

/* Zeroed: no allocators. An allocator's domain is DOMAIN_USER + its index. */
struct user_allocators {
	struct user_allocator *allocator;
	size_t allocator_nr, allocator_alloc;
	struct user_function *function; /* of all allocators */
	size_t function_nr, function_alloc;
	struct functions_wanted wanted; /* what to look for in files */
};

/* Adds the allocator of a SPEC. 0, -ENOMEM, or -EINVAL with the mistake in *why. */
int user_allocators_add(struct user_allocators *user_allocators, const char *spec, struct reason *why);
void user_allocators_release(struct user_allocators *user_allocators);

/* Whether this file defines the functions of allocator number i. */
bool user_allocator_is_in(const struct user_allocator *allocator, const char *path, bool is_exe);

/*
 * Whether exceptions may leave the function. Its return address must then stay as it is; otherwise
 * an exception would end the program.
 */
bool user_function_throws(const struct user_allocators *user_allocators, size_t i);

/* Whether this file may define functions of a user allocator. It does not know which file is the program. */
bool user_allocators_may_be_in(const struct user_allocators *user_allocators, const char *path);

/* A function of a user allocator, as --probe describes it: "alloc=SYM(size=1)". */

/* Where the kernel side finds the arguments. */
struct user_call user_call_of(const struct user_arguments *arguments);

#endif
