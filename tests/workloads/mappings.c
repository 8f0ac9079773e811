// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Mappings that come, go and are cut, each made by a function of its own; tests/live/test_mmap.py knows
 * the rest of each.
 *
 *	go	one thread does all of it; then two cut one mapping at the same time, page by page
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "workload.h"

#define PAGE ((unsigned long)sysconf(_SC_PAGESIZE))
#define SHARED_PAGES 4096
#define CUTTERS 2

static char *shared;
static pthread_barrier_t begin, end;
static void *volatile sink;

static char *map(size_t size, void *at)
{
	void *p = mmap(at, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	sink = p;
	return p;
}

#define LEAF(name, call)                    \
	SITE static char *leaf_##name(void) \
	{                                   \
		return call;                \
	}

LEAF(whole, map(10007, NULL))
LEAF(trimmed, map(101 * PAGE, NULL))
LEAF(to_grow, map(3 * PAGE, NULL))

SITE static char *leaf_grown(char *p)
{
	return sink = mremap(p, 3 * PAGE, 31 * PAGE, MREMAP_MAYMOVE);
}

SITE static char *leaf_shrunk(char *p)
{
	return sink = mremap(p, 31 * PAGE, 7 * PAGE + 1, 0);
}

SITE static char *leaf_moved(char *p, char *to)
{
	return sink = mremap(p, 3 * PAGE, 5 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

LEAF(under, map(17 * PAGE, NULL))

SITE static char *leaf_over(char *p)
{
	return map(4 * PAGE, p);
}

LEAF(reserved, map(53 * PAGE, NULL))

SITE static char *leaf_many(char *p)
{
	return map(PAGE, p);
}

SITE static void *leaf_malloc(void)
{
	return sink = malloc(1 << 20);
}

LEAF(shared, map(SHARED_PAGES * PAGE, NULL))

/* None of these calls changes a mapping. */
SITE static void leaf_fails(char *p)
{
	sink = mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sink = mremap(p, 3 * PAGE, SIZE_MAX / 2, MREMAP_MAYMOVE);
	if (munmap(p + 1, PAGE) && munmap(p, 0))
		sink = NULL;
}

static void cut(char *p)
{
	munmap(p, 11 * PAGE);
	munmap(p + 81 * PAGE, 20 * PAGE);
	munmap(p + 40 * PAGE, 5 * PAGE);
}

static void map_many(char *p)
{
	for (int i = 0; i < 53; i++)
		leaf_many(p + i * PAGE);
	munmap(p + 10 * PAGE, 29 * PAGE);
}

static void go(void)
{
	char *p;

	for (int i = 0; i < 5; i++) {
		p = leaf_whole();
		if (i % 2)
			munmap(p, 10007);
	}
	cut(leaf_trimmed());
	p = leaf_to_grow();
	leaf_fails(p);
	leaf_shrunk(leaf_grown(p));
	p = leaf_under();
	leaf_over(p + 2 * PAGE);
	leaf_moved(leaf_to_grow(), p + 10 * PAGE);
	map_many(leaf_reserved());
	leaf_malloc();
	shared = leaf_shared();
}

/* Each of them every fourth page. */
static void *cutter(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		for (int i = 2 * (intptr_t)arg; i < SHARED_PAGES; i += 2 * CUTTERS)
			munmap(shared + i * PAGE, PAGE);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;

	pthread_barrier_init(&begin, NULL, CUTTERS + 1);
	pthread_barrier_init(&end, NULL, CUTTERS + 1);
	for (intptr_t i = 0; i < CUTTERS; i++)
		pthread_create(&thread, NULL, cutter, (void *)i);
	ready();
	while (!strcmp(next_command(), "go")) {
		go();
		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		answer("{\"done\": {}}");
	}
	return 0;
}
