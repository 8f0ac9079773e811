// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/unwind/own_vdso.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>

static size_t mapped_bytes(uintptr_t wanted)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t start = 0, end = 0;
	char line[512];

	while (maps && start != wanted && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &start, &end) != 2)
			start = 0;
	if (maps)
		fclose(maps);
	return start == wanted ? end - start : 0;
}

const void *own_vdso(size_t bytes)
{
	uintptr_t start = getauxval(AT_SYSINFO_EHDR);

	return start && bytes && mapped_bytes(start) == bytes ? (const void *)start : NULL;
}
