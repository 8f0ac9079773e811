// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* own_malloc: a program with a malloc of its own, below the library. Prints the flags that the library has then. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_ops.h"
#include "trap.h"

static char arena[64 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t n)
{
	size_t begin = __atomic_fetch_add(&used, (n + 31) & ~(size_t)15, __ATOMIC_RELAXED);

	if (begin + n + 16 > sizeof(arena))
		return NULL;
	*(size_t *)(arena + begin) = n;
	return arena + begin + 16;
}

void free(void *)
{
}

void *calloc(size_t n, size_t size)
{
	return malloc(n * size);
}

void *realloc(void *old, size_t n)
{
	char *block = malloc(n);

	return old && block ? memcpy(block, old, n < ((size_t *)old)[-2] ? n : ((size_t *)old)[-2]) : block;
}

int main(void)
{
	trap_find_library();
	trap_listen();
	for (int i = 0; i < 1000; i++) {
		free(malloc(1000));
		free(memalign(64, 1000)); /* this one is the C library's: its free would not be seen */
	}
	trap_stop_listening();
	printf("flags %u events %d samples %ld\n", trap_info->flags, seen.nr, (long)trap_info->samples);
	return 0;
}
