/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COPIES_H
#define ALLOCSNAP_COPIES_H

/*
 * Replaces the program's code by a copy, as programs do that want huge pages. Static and inlined memory functions
 * only: a probed function in the copy dies of its breakpoint from then on.
 */

#include <stdint.h>
#include <sys/mman.h>

#include "workload.h"

/* The mapping that this code lies in. */
static inline void find_code(char **ret_start, size_t *ret_bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start, end;
	char line[512], perms[5];

	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 && perms[2] == 'x' &&
		    start <= (uintptr_t)find_code && (uintptr_t)find_code < end) {
			*ret_start = (char *)start;
			*ret_bytes = end - start;
		}
	fclose(maps);
}

/* A constant in the call would be a sign. */
static volatile int how = MREMAP_MAYMOVE | MREMAP_FIXED;

static inline int copy_code(char *code, size_t bytes)
{
	char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(copy, code, bytes);
	return mprotect(copy, bytes, PROT_READ | PROT_EXEC) ||
	       mremap(copy, bytes, bytes, how, code) == MAP_FAILED;
}

#endif
