/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BENCH_STACKS_H
#define ALLOCSNAP_BENCH_STACKS_H

/* Blocks that stay, of 4,096 stacks. */

#include <stdint.h>
#include <stdlib.h>

#define LEVELS 12 /* of two functions each: 2^12 stacks */

static void *volatile kept;

/* The user's: the size of a block of a stack. */
static uint64_t bytes_of(uint32_t path);

#define SIDE __attribute__((noipa)) static void

SIDE left(uint32_t path, int level);
SIDE right(uint32_t path, int level);

static inline __attribute__((always_inline)) void descend(uint32_t path, int level)
{
	void **block;

	if (level < LEVELS) {
		path >> level & 1 ? right(path, level + 1) : left(path, level + 1);
	} else {
		block = malloc(bytes_of(path));
		*block = kept;
		kept = block;
	}
	__asm__ volatile(""); /* no jump instead of a call */
}

SIDE left(uint32_t path, int level)
{
	descend(path, level);
}

SIDE right(uint32_t path, int level)
{
	descend(path, level);
}

/* The block of a number, of any stack. */
static void keep_block(uint64_t number)
{
	left((uint32_t)number * 2654435761u >> 7, 0);
}

#endif
