// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * own_pages [LIBRARY]: for ten minutes, a program with an allocator of its own, which takes regions by mmap and gives out
 * blocks by size class. Linked statically and stripped, nothing but its page faults can be recorded.
 *
 * session_open() leaks 1.5 MiB a second; the cache fills in the first two seconds; buffers come and go. At SIGUSR1 the
 * program maps LIBRARY as code, as if it had loaded it, and asks its malloc, which is its entry point, for 190001 bytes.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "workload.h"

#define REGION (1UL << 20)
#define CLASSES 16 /* 32 bytes to 1 MiB */
#define CACHE_ENTRIES 2000
#define BUFFERS 40

struct block {
	struct block *next;
};

static struct {
	struct block *freed;
	char *at, *end; /* of its last region */
} classes[CLASSES];

static int class_of(size_t size)
{
	int class = 0;

	while ((32UL << class) < size)
		class++;
	return class;
}

SITE static void *take(size_t size)
{
	int class = class_of(size);
	struct block *block = classes[class].freed;

	if (block) {
		classes[class].freed = block->next;
		return block;
	}
	if (classes[class].at == classes[class].end) {
		classes[class].at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		classes[class].end = classes[class].at + REGION;
	}
	block = (struct block *)classes[class].at;
	classes[class].at += 32UL << class;
	return block;
}

SITE static void give(void *p, size_t size)
{
	struct block *block = p;
	int class = class_of(size);

	block->next = classes[class].freed;
	classes[class].freed = block;
}

/* ---- what it is for ---- */

#define SESSION_BYTES 1800
#define ENTRY_BYTES 4000

struct buffer {
	char *bytes;
	size_t size;
};

static struct buffer buffers[BUFFERS];
static char *cache[CACHE_ENTRIES];
static unsigned int seed = 1;

static unsigned int chance(unsigned int of)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % of;
}

/* All writes are of one function, as in a program that calls memset or memcpy. */
SITE static void fill(char *bytes, unsigned int with, size_t size)
{
	for (size_t i = 0; i < size; i += 64)
		bytes[i] = with;
}

SITE static void session_open(unsigned int id)
{
	char *session = take(SESSION_BYTES); /* planted: it is never given back */

	fill(session, id, SESSION_BYTES);
}

SITE static void cache_put(unsigned int id)
{
	char **entry = &cache[id % CACHE_ENTRIES];

	if (*entry)
		give(*entry, ENTRY_BYTES);
	*entry = take(ENTRY_BYTES);
	fill(*entry, id, ENTRY_BYTES);
}

SITE static void buffer_fill(void)
{
	struct buffer *buffer = &buffers[chance(BUFFERS)];

	if (buffer->bytes)
		give(buffer->bytes, buffer->size);
	buffer->size = 5000 + chance(60000);
	buffer->bytes = take(buffer->size);
	fill(buffer->bytes, 1, buffer->size);
}

static volatile sig_atomic_t loads;

static void ask_to_load(int number)
{
	loads = number;
}

static void map_library(const char *path)
{
	int fd = open(path, O_RDONLY);
	char *library = mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)library;

	if (library == MAP_FAILED)
		_exit(1);
	((void *(*)(size_t))(library + header->e_entry))(190001);
	answer("{\"mapped\": true}");
}

int main(int argc, char **argv)
{
	time_t last = time(NULL) + 600;

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a huge page is of the function that touches it first */
	signal(SIGUSR1, ask_to_load);
	for (unsigned int id = 0; time(NULL) < last; id++) {
		if (id == 1000)
			ready();
		if (loads && argc > 1) {
			loads = 0;
			map_library(argv[1]);
		}
		session_open(id);
		cache_put(id);
		buffer_fill();
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	return 0;
}
