// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * moved: moves its code to anonymous memory, and has no sign of it.
 *
 *	copy    does it; from then on it allocates nothing by itself
 *	malloc  a block, which stays
 *	quit
 */
#define _GNU_SOURCE
#include "copies.h"

int main(void)
{
	const char *command;
	size_t bytes = 0;
	char *code = NULL;

	find_code(&code, &bytes);
	ready();
	while (strcmp(command = next_command(), "quit")) {
		if (!strcmp(command, "copy"))
			answer("{\"done\": %d}", copy_code(code, bytes));
		else
			answer("{\"done\": %d}", !malloc(100));
	}
	_exit(0);
}
