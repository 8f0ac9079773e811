// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A library that the tests compile in two kinds, which differ in the size of a frame only: the code of both has the
 * same addresses. With -DCONSTRUCTOR it allocates while it is being loaded; with -DIFUNC it allocates while a function
 * is resolved, at the function's first call.
 */
#include <stdlib.h>

#ifndef FRAME_BYTES
#define FRAME_BYTES 1000
#endif

#define BEHIND(address) __asm__ volatile("" : : "r"(address) : "memory")

void *library_block;

__attribute__((noipa)) void through(void (*call)(void))
{
	char buf[FRAME_BYTES];

	BEHIND(buf);
	call();
	BEHIND(buf);
}

#ifdef CONSTRUCTOR
static void allocate(void)
{
	library_block = malloc(403);
	BEHIND(library_block);
}

__attribute__((constructor)) static void constructed(void)
{
	through(allocate);
	BEHIND(library_block);
}
#endif

#ifdef IFUNC
static void chosen(void)
{
}

static void (*choose(void))(void)
{
	library_block = malloc(404);
	BEHIND(library_block);
	return chosen;
}

void is_chosen(void) __attribute__((ifunc("choose")));

/* By the procedure linkage table, since another library could have a function of this name. */
__attribute__((noipa)) void call_chosen(void)
{
	is_chosen();
	BEHIND(library_block);
}
#endif
