// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Two million blocks from a thousand call paths: path i, by way of first_A, second_B and third_C
 * where i is ABC, makes 1001 + 2 i blocks of 1 + i % 97 bytes.
 *
 *	go K      the Kth tenth of them, each path by turns
 *	free K    frees the Kth tenth
 *	quit
 */
#include "workload.h"

#define PATH_NR 1000
#define BLOCK_NR 2000000
#define ROUND_NR 3000
#define STEPS 10
#define PADDING 4

static void *block[BLOCK_NR];
static long block_nr, freed_nr;

SITE static void leaf(int path)
{
	block[block_nr++] = malloc(1 + path % 97);
}

/* Each at a line of its own: what has one line is one frame. */
#define THIRD(d) SITE static void third_##d(int path) { leaf(path); }
#define SECOND(d) SITE static void second_##d(int path) { third[path % 10](path); }
#define FIRST(d) SITE static void first_##d(int path) { second[path / 10 % 10](path); }
#define TABLE(name) \
	static void (*const name[])(int path) = { \
		name##_0, name##_1, name##_2, name##_3, name##_4, \
		name##_5, name##_6, name##_7, name##_8, name##_9, \
	}

THIRD(0)
THIRD(1)
THIRD(2)
THIRD(3)
THIRD(4)
THIRD(5)
THIRD(6)
THIRD(7)
THIRD(8)
THIRD(9)
TABLE(third);

SECOND(0)
SECOND(1)
SECOND(2)
SECOND(3)
SECOND(4)
SECOND(5)
SECOND(6)
SECOND(7)
SECOND(8)
SECOND(9)
TABLE(second);

FIRST(0)
FIRST(1)
FIRST(2)
FIRST(3)
FIRST(4)
FIRST(5)
FIRST(6)
FIRST(7)
FIRST(8)
FIRST(9)
TABLE(first);

SITE static void descend(int depth, int path)
{
	if (depth)
		descend(depth - 1, path);
	else
		first[path / 100](path);
}

static void go(int step)
{
	for (int round = step * ROUND_NR / STEPS; round < (step + 1) * ROUND_NR / STEPS; round++)
		for (int path = 0; path < PATH_NR; path++)
			if (round < 1001 + 2 * path)
				descend(PADDING, path);
}

static void free_some(int step)
{
	while (freed_nr < (step + 1L) * BLOCK_NR / STEPS)
		free(block[freed_nr++]);
}

int main(void)
{
	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (!strncmp(command, "go ", 3))
			go(atoi(command + 3));
		if (!strncmp(command, "free ", 5))
			free_some(atoi(command + 5));
		answer("{\"done\": {\"count\": %ld}}", block_nr - freed_nr);
	}
}
