// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * unseen_target ENTRIES: waits for a second, then fills a table of texts with memory that it gets by mmap. Linked statically
 * and stripped, so that nothing but its page faults can be recorded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS (1UL << 20)
#define REGION (4UL << 20)

struct entry {
	struct entry *next;
	unsigned long hash;
	char text[]; /* some 200 bytes */
};

static struct entry *table[SLOTS];

static void *take(size_t size)
{
	static char *at, *end;

	size = (size + 15) & ~15UL;
	if ((size_t)(end - at) < size) {
		at = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED || madvise(at, REGION, MADV_NOHUGEPAGE))
			exit(1);
		end = at + REGION;
	}
	at += size;
	return at - size;
}

__attribute__((noinline)) static void put(const char *text, size_t size)
{
	unsigned long hash = 5381;
	struct entry *entry = take(sizeof(*entry) + size);

	for (size_t i = 0; i < size; i++)
		hash = hash * 33 + text[i];
	entry->hash = hash;
	memcpy(entry->text, text, size);
	entry->next = table[hash % SLOTS];
	table[hash % SLOTS] = entry;
}

__attribute__((noinline)) static void fill(long nr)
{
	char text[256];

	for (long i = 0; i < nr; i++) {
		int size = snprintf(text, sizeof(text), "customer %ld of the northern branch, order %lx, %.*s", i, i * 2654435761UL,
				    (int)(i % 128), "a line of the text that says what was ordered, when it was sent, and who has paid for it; and more of the same, until it is full");

		put(text, size + 1);
	}
}

int main(int argc, char **argv)
{
	sleep(1);
	fill(argc > 1 ? atol(argv[1]) : 1000000);
	return 0;
}
