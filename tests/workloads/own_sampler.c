// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Many blocks of few places, by several threads, in a program that takes samples of its heap itself (own_sampler.h).
 * Other blocks, which no sampler sees, come and go meanwhile.
 *
 *	go         each thread makes all of its blocks; {"row": NAME, "count": N, "size": BYTES OF ONE} of each place
 *	free       frees all live blocks; also reports frees of blocks that were never reported
 *	interval N takes a sample in N bytes from now on
 *	excess N   reports N percent of each weight; unreported N, misdirected N: of each N-th free nothing, another pointer
 *	churn N    makes and frees N blocks of each place, one after another
 *	fork       a child makes and frees blocks; answers how it ended
 *	semaphores their values
 *	load PATH  loads a library with a sampler of its own: the next blocks are the library's
 *	quit
 */
#include <dlfcn.h>
#include <sys/wait.h>

#include "workload.h"

#ifdef OWN_SAMPLER_LATE /* only the library that it loads has a sampler */
#include <pthread.h>
#include <stdint.h>
#define own_malloc malloc
#define own_free free
#define own_pass_free(block) ((void)(block))
static unsigned int own_alloc_semaphore, own_free_semaphore;
static uint64_t own_interval;
static double own_excess;
static unsigned int own_unreported, own_misdirected;
#else
#include "own_sampler.h"
#endif

#define THREADS 3
#define BLOCKS_MAX 60000

struct blocks {
	void *block[BLOCKS_MAX];
	int nr;
};

static struct blocks blocks_of[THREADS];
static void *(*take)(size_t) = own_malloc;
static void (*give)(void *) = own_free;

#define PLACE(name, bytes)            \
	SITE static void *name(void)  \
	{                             \
		return take(bytes);   \
	}

PLACE(small, 48)
PLACE(medium, 700)
PLACE(large, 30000)
PLACE(half_freed, 200)

static const struct {
	const char *name;
	void *(*make)(void);
	int nr, size;
	int freed; /* one in so many is freed at once */
} rows[] = {
	{ "small", small, 12000, 48, 0 },
	{ "medium", medium, 1500, 700, 0 },
	{ "large", large, 150, 30000, 0 },
	{ "half_freed", half_freed, 8000, 200, 2 },
};
#define ROWS (sizeof(rows) / sizeof(*rows))

static void *make_blocks(void *blocks_)
{
	struct blocks *blocks = blocks_;

	for (size_t row = 0; row < ROWS; row++)
		for (int i = 0; i < rows[row].nr; i++) {
			void *block = rows[row].make();

			free(malloc(100)); /* not seen by the sampler */
			if (rows[row].freed && i % rows[row].freed == 0)
				give(block);
			else if (blocks->nr < BLOCKS_MAX)
				blocks->block[blocks->nr++] = block;
		}
	return NULL;
}

static void go(void)
{
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, make_blocks, &blocks_of[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (size_t row = 0; row < ROWS; row++)
		answer("{\"row\": \"%s\", \"count\": %d, \"size\": %d}", rows[row].name,
		       THREADS * (rows[row].nr - (rows[row].freed ? rows[row].nr / rows[row].freed : 0)),
		       rows[row].size);
	answer("{\"done\": \"go\"}");
}

/* Threads free each other's blocks; there is one thread now. */
static void free_all(void)
{
	for (int i = 0; i < THREADS; i++)
		while (blocks_of[i].nr)
			give(blocks_of[i].block[--blocks_of[i].nr]);
	for (int i = 0; i < 1000; i++)
		own_pass_free((void *)(uintptr_t)(0x10000 + 16 * i));
	answer("{\"done\": \"free\"}");
}

static void churn(int nr)
{
	for (int i = 0; i < nr; i++)
		for (size_t row = 0; row < ROWS; row++)
			give(rows[row].make());
	answer("{\"done\": \"churn\"}");
}

static void fork_child(void)
{
	pid_t pid = fork();
	int status = -1;

	if (!pid) {
		for (int i = 0; i < 20000; i++)
			give(take(1000));
		_exit(7);
	}
	waitpid(pid, &status, 0);
	answer("{\"done\": {\"status\": %d}}", status);
}

#ifdef OWN_SAMPLER_STATIC
static void load(const char *path)
{
	exit(!*path);
}
#else
static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);

	if (!library)
		exit(1);
	take = (void *(*)(size_t))dlsym(library, "library_malloc");
	give = (void (*)(void *))dlsym(library, "library_free");
	answer("{\"done\": \"load\"}");
}
#endif

static void obey(const char *command)
{
	if (!strcmp(command, "go"))
		return go();
	if (!strcmp(command, "free"))
		return free_all();
	if (!strcmp(command, "fork"))
		return fork_child();
	if (!strncmp(command, "load ", 5))
		return load(command + 5);
	if (!strncmp(command, "churn ", 6))
		return churn(atoi(command + 6));
	if (!strncmp(command, "interval ", 9))
		own_interval = strtoull(command + 9, NULL, 10);
	if (!strncmp(command, "excess ", 7))
		own_excess = atoi(command + 7) / 100.0;
	if (!strncmp(command, "unreported ", 11))
		own_unreported = atoi(command + 11);
	if (!strncmp(command, "misdirected ", 12))
		own_misdirected = atoi(command + 12);
	answer("{\"done\": {\"alloc\": %u, \"free\": %u}}", own_alloc_semaphore, own_free_semaphore);
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit"))
		obey(command);
	return 0;
}
