// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* at_once NR BYTES: has NR blocks of that size at once, and waits until its stdin ends. */

#include "workload.h"

SITE static void *take(size_t bytes)
{
	return malloc(bytes);
}

int main(int argc, char **argv)
{
	int nr = argc > 1 ? atoi(argv[1]) : 1;
	size_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	char byte;

	for (int i = 0; i < nr; i++)
		if (!take(bytes))
			return 1;
	ready();
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
