// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * ways: "go NR" allocates and frees NR times, each time by another path of calls; "keep NR" allocates NR
 * blocks that stay, by one path. Each is answered by a line.
 */
#include <stdint.h>

#include "workload.h"

#define DEPTH 6 /* of eight ways each: 262,144 paths */

static void *kept;
static uint64_t path_nr;

typedef void way(uint64_t path, int depth);
static way way_0, way_1, way_2, way_3, way_4, way_5, way_6, way_7;
static way *const ways[] = { way_0, way_1, way_2, way_3, way_4, way_5, way_6, way_7 };

#define WAY(nr) \
	SITE static void way_##nr(uint64_t path, int depth) \
	{ \
		void *volatile block; \
		if (depth) \
			ways[path % 8](path / 8, depth - 1); \
		else \
			free(block = malloc(64)); \
		__asm__ volatile(""); \
	}
WAY(0)
WAY(1)
WAY(2)
WAY(3)
WAY(4)
WAY(5)
WAY(6)
WAY(7)

static void keep(unsigned long nr)
{
	while (nr--) {
		void **block = malloc(64);

		if (!block)
			exit(1);
		*block = kept;
		kept = block;
	}
}

int main(void)
{
	const char *command;
	unsigned long nr;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		if (sscanf(command, "go %lu", &nr) == 1)
			for (; nr; nr--)
				way_0(path_nr++, DEPTH);
		else if (sscanf(command, "keep %lu", &nr) == 1)
			keep(nr);
		answer("{\"done\": {}}");
	}
	return 0;
}
