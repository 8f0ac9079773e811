// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * holds BYTES [PROGRAM ARG…]: holds that much in one block. Then it calls exec, or prints its PID and waits
 * until its stdin ends; with "-" instead of PROGRAM it ends at once.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

SITE static void *hold(size_t bytes)
{
	void *block = malloc(bytes);

	if (block)
		memset(block, 1, bytes);
	return block;
}

int main(int argc, char **argv)
{
	void *volatile block = hold(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
	char byte;

	if (!block)
		return 1;
	if (argc > 2 && !strcmp(argv[2], "-"))
		_exit(0);
	if (argc > 2) {
		execv(argv[2], argv + 2);
		return 1;
	}
	ready();
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	return 0;
}
