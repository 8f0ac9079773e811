// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Many blocks of few places, by several threads, for a recording that takes samples.
 *
 *	go      each thread makes all of its blocks; {"row": NAME, "count": N, "size": BYTES OF ONE} of
 *	        each place, then {"done": {…}} with all that was allocated and freed
 *	free    frees all live blocks
 *	quit
 */
#include <pthread.h>

#include "workload.h"

#define THREADS 3
#define BLOCKS_MAX 20000

struct blocks {
	void *block[BLOCKS_MAX];
	int nr;
};

static struct blocks blocks_of[THREADS];

#define PLACE(name, call)             \
	SITE static void *name(void)  \
	{                             \
		return call;          \
	}

PLACE(small, malloc(48))
PLACE(zeroed, calloc(5, 100))
PLACE(first, malloc(100))

SITE static void *grown(void *block)
{
	return realloc(block, 900);
}

PLACE(from_null, realloc(NULL, 300))
PLACE(large, malloc(30000))
PLACE(half_freed, malloc(200))

static const struct {
	const char *name;
	int count;
	long size;
} rows[] = {
	{ "small", 9000, 48 },	  { "zeroed", 2000, 500 }, { "grown", 2000, 900 },
	{ "from_null", 2000, 300 }, { "large", 40, 30000 }, { "half_freed", 2000, 200 },
};

#define ROWS (sizeof(rows) / sizeof(*rows))

static void *make(unsigned int row)
{
	switch (row) {
	case 0:
		return small();
	case 1:
		return zeroed();
	case 2:
		return grown(first());
	case 3:
		return from_null();
	case 4:
		return large();
	}
	free(half_freed());
	return half_freed();
}

static void *work(void *blocks_)
{
	struct blocks *blocks = blocks_;

	for (unsigned int row = 0; row < ROWS; row++)
		for (int i = 0; i < rows[row].count; i++)
			blocks->block[blocks->nr++] = make(row);
	return NULL;
}

static pthread_barrier_t all_are_there;

static void *meet(void *blocks)
{
	pthread_barrier_wait(&all_are_there);
	return blocks;
}

static void run_threads(void *(*function)(void *))
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, function, &blocks_of[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void go(void)
{
	long allocations = 0, bytes = 0, freed = 2000 + 2000, freed_bytes = 2000 * 100 + 2000 * 200;

	run_threads(work);
	for (unsigned int row = 0; row < ROWS; row++) {
		answer("{\"row\": \"%s\", \"count\": %d, \"size\": %ld}", rows[row].name,
		       THREADS * rows[row].count, rows[row].size);
		allocations += rows[row].count;
		bytes += rows[row].count * rows[row].size;
	}
	answer("{\"done\": {\"allocations\": %ld, \"allocated_bytes\": %ld, \"frees\": %ld, \"freed_bytes\": %ld}}",
	       THREADS * (allocations + freed), THREADS * (bytes + freed_bytes), THREADS * freed,
	       THREADS * freed_bytes);
}

static void free_all(void)
{
	for (int i = 0; i < THREADS; i++)
		while (blocks_of[i].nr)
			free(blocks_of[i].block[--blocks_of[i].nr]);
	answer("{\"done\": {}}");
}

/* glibc keeps the memory that it has allocated for threads, for later threads. */
int main(void)
{
	pthread_barrier_init(&all_are_there, NULL, THREADS);
	run_threads(meet);
	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "go"))
			go();
		else if (!strcmp(command, "free"))
			free_all();
		else
			return 0;
	}
}
