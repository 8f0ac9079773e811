// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * two_heaps LIBRARY MALLOC FREE: the C library's heap, and a loaded library's, by the names of its
 * functions. Allocates from both in turn, and counts both.
 *
 *	load   loads the library
 *	go     allocates from both, and frees a third of either
 *	race   loads the library and allocates from it each millisecond, sizes counting from 0 on
 *	free   frees all
 *	quit
 */
#include <dlfcn.h>

#include "workload.h"

#define BLOCK_NR 1501
#define RACE_NR 2003

struct heap {
	void *(*allocate)(size_t size, int flags);
	void (*release)(void *block, int flags);
	void *block[RACE_NR];
	size_t size[RACE_NR];
	long count, bytes;
};

static void *c_allocate(size_t size, int)
{
	return malloc(size);
}

static void c_release(void *block, int)
{
	free(block);
}

static struct heap c = { c_allocate, c_release }, loaded;

static void enter(struct heap *heap, int i, size_t size)
{
	heap->block[i] = heap->allocate(size, 0);
	if (!heap->block[i])
		abort();
	memset(heap->block[i], 1, size);
	heap->size[i] = size;
	heap->count++;
	heap->bytes += size;
}

static void leave(struct heap *heap, int i)
{
	if (!heap->block[i])
		return;
	heap->release(heap->block[i], 0);
	heap->block[i] = NULL;
	heap->count--;
	heap->bytes -= heap->size[i];
}

static void load(char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		answer("{\"error\": \"%s\"}", dlerror());
		exit(1);
	}
	loaded.allocate = (void *(*)(size_t, int))dlsym(library, argv[2]);
	loaded.release = (void (*)(void *, int))dlsym(library, argv[3]);
	if (!loaded.allocate || !loaded.release)
		exit(1);
}

static void go(void)
{
	for (int i = 0; i < BLOCK_NR; i++) {
		enter(&c, i, 11 + i % 1009);
		enter(&loaded, i, 7 + i % 997);
		if (i % 3)
			continue;
		leave(&loaded, i);
		leave(&c, i);
	}
}

static void race(void)
{
	for (int i = 0; i < RACE_NR; i++) {
		enter(&loaded, i, i);
		usleep(1000);
	}
}

static void free_all(void)
{
	for (int i = 0; i < RACE_NR; i++) {
		leave(&c, i);
		leave(&loaded, i);
	}
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 1;
	ready();
	for (;;) {
		const char *command = next_command();

		if (!strcmp(command, "quit"))
			return 0;
		if (!strcmp(command, "load") || !strcmp(command, "race"))
			load(argv);
		if (!strcmp(command, "race"))
			race();
		if (!strcmp(command, "go"))
			go();
		if (!strcmp(command, "free"))
			free_all();
		answer("{\"done\": {\"c\": [%ld, %ld], \"loaded\": [%ld, %ld]}}", c.count, c.bytes,
		       loaded.count, loaded.bytes);
	}
}
