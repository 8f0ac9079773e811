// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* remap: moves its code to anonymous memory at its begin, with the option that ClickHouse has for it, and goes on. */
#define _GNU_SOURCE
#include "copies.h"

static const char *volatile option = "remap_executable";

int main(void)
{
	void *before = malloc(10), *after;
	size_t bytes = 0;
	char *code = NULL;

	find_code(&code, &bytes);
	if (copy_code(code, bytes))
		return 1;
	after = malloc(100);
	free(after);
	free(before);
	printf("%s: survived\n", option);
}
