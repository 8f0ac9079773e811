// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Loads libsqlite3 when it is already being recorded, and allocates 17 blocks through it. */
#include <dlfcn.h>

#include "workload.h"

#define BLOCK_NR 17

static void *block[BLOCK_NR];

SITE static void *through_library(void *(*allocate)(int), int size)
{
	return allocate(size);
}

static void go(void)
{
	void *library = dlopen("libsqlite3.so.0", RTLD_NOW);
	void *(*allocate)(int) = library ? (void *(*)(int))dlsym(library, "sqlite3_malloc") : NULL;

	if (!allocate) {
		answer("{\"done\": {\"error\": \"no libsqlite3.so.0\"}}");
		return;
	}
	for (int i = 0; i < BLOCK_NR; i++)
		block[i] = through_library(allocate, 4001);
	answer("{\"done\": {\"count\": %d, \"size\": %d}}", BLOCK_NR, BLOCK_NR * 4001);
}

int main(void)
{
	ready();
	while (!strcmp(next_command(), "go"))
		go();
	return 0;
}
