// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A mapping with more holes than a process may have mappings: the last munmaps fail.
 *
 *	go N	maps 2 N + 1 pages and unmaps every other one; answers how many munmaps failed
 *	quit
 */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "workload.h"

#define PAGE 4096L

static void make_holes(long nr)
{
	long bytes = (2 * nr + 1) * PAGE, failed = 0;
	char *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED)
		_exit(1);
	for (long i = 0; i < nr; i++)
		failed += munmap(map + (2 * i + 1) * PAGE, PAGE) != 0;
	answer("{\"done\": {\"failed\": %ld, \"count\": %ld, \"size\": %ld}}", failed,
	       1 + nr - failed, bytes - (nr - failed) * PAGE);
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit"))
		if (!strncmp(command, "go ", 3))
			make_holes(atol(command + 3));
	return 0;
}
