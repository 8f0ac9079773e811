// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A library that allocates in its constructor and frees in its destructor. */
#include <stdlib.h>

static void *block[3];

static __attribute__((constructor)) void allocate_blocks(void)
{
	for (int i = 0; i < 3; i++)
		block[i] = malloc(1000);
}

static __attribute__((destructor)) void free_blocks(void)
{
	for (int i = 0; i < 3; i++)
		free(block[i]);
}
