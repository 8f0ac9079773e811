/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CENSUS_PYMALLOC_H
#define ALLOCSNAP_CENSUS_PYMALLOC_H

/*
 * CPython's allocator of small objects, pymalloc (Objects/obmalloc.c): arenas are divided into pools, a pool into blocks of
 * one size. The blocks of a pool that were ever used and are not in its free list are live. What begins in a block is
 * an object if its type is one: behind a PyGC_Head and what is before that, as the type's flags say.
 *
 *	arenas ──► struct arena_object[]: { address, pool_address, … }
 *			pool: { live blocks, first free block, …, size class, next block that was never used } blocks …
 */

#include "census/census.h"
#include "census/target_memory.h"

struct python_info;

/* Adds the Python part to a census. bias: of the file that the info is about. 0 or -ENOMEM; census->python.why: why not. */
int pymalloc_census(struct target_memory *memory, const struct python_info *info, uint64_t bias, struct census *census);

#endif
