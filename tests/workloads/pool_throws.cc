// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// A pool whose functions throw: "go N" asks for 2 N objects, of which every other one is too large;
// "free" gives back all.
#include <new>

#include "workload.h"

#define ROUNDS_MAX 1000
#define LARGEST 256

static char memory[ROUNDS_MAX][LARGEST];
static void *kept[ROUNDS_MAX];
static int kept_nr;
static long kept_bytes, caught;

struct Pool {
	SITE void *get(size_t size)
	{
		if (size > LARGEST)
			throw std::bad_alloc();
		return memory[kept_nr];
	}
	SITE void put(void *object) { asm volatile("" : : "r"(object) : "memory"); }
};

extern "C" SITE void *pool_get(Pool *pool, size_t size)
{
	return pool->get(size);
}

static Pool pool;

static void take(size_t size, bool by_c)
{
	try {
		kept[kept_nr] = by_c ? pool_get(&pool, size) : pool.get(size);
		kept_nr++;
		kept_bytes += size;
	} catch (std::bad_alloc &) {
		caught++;
	}
}

int main()
{
	int rounds;

	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (sscanf(command, "go %d", &rounds) == 1)
			for (int i = 0; i < rounds && kept_nr < ROUNDS_MAX; i++) {
				take(i % LARGEST + 1, i % 2);
				take(LARGEST + 1 + i, i % 2);
			}
		else
			for (; kept_nr; kept_bytes = 0)
				pool.put(kept[--kept_nr]);
		answer("{\"done\": {\"objects\": [%d, %ld], \"caught\": %ld}}", kept_nr, kept_bytes, caught);
	}
}
