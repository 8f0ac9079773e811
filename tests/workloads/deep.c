// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* deep [DEPTH] (default 20): allocates 7 blocks of 127 bytes below DEPTH calls of descend(). */
#include "workload.h"

static void *kept[7];

SITE static void *leaf_deep(void)
{
	return malloc(127);
}

SITE static int descend(int depth)
{
	if (depth > 1)
		return descend(depth - 1) + 1;
	for (int i = 0; i < 7; i++)
		kept[i] = leaf_deep();
	return 1;
}

int main(int argc, char **argv)
{
	int depth = argc > 1 ? atoi(argv[1]) : 20;

	ready();
	while (!strcmp(next_command(), "go"))
		answer("{\"done\": {\"depth\": %d}}", descend(depth));
	return 0;
}
