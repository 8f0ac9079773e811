// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Allocates and frees on command, in blocks of 4099 bytes.
 *
 *	rise BYTES   to at least so many, fall BYTES to at most; {"done": {"count": N, "size": BYTES}}
 *	spike BYTES  up and down again by so many, at once
 *	touch BYTES  touches memory until there is no more
 *	quit, or one of end_at_once()
 */
#include <sys/mman.h>

#include "workload.h"

#define SIZE 4099

struct node {
	struct node *next;
	char rest[SIZE - sizeof(struct node *)];
} __attribute__((packed));

static struct node *list;
static long count;

SITE static void rise_here(void)
{
	struct node *node = malloc(SIZE);

	node->next = list;
	list = node;
	count++;
}

SITE static void spike_here(void)
{
	rise_here();
}

static void fall(void)
{
	struct node *node = list;

	list = node->next;
	free(node);
	count--;
}

static void rise_to(long bytes, void (*grow)(void))
{
	while (count * SIZE < bytes)
		grow();
}

static void fall_to(long bytes)
{
	while (count * SIZE > bytes)
		fall();
}

/* Not by the allocator, so the live bytes do not change. */
static void touch(void)
{
	for (;;) {
		char *page = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		memset(page, 1, 1 << 20);
	}
}

int main(void)
{
	ready();
	for (;;) {
		const char *command = next_command();
		long bytes;

		end_at_once(command);
		if (sscanf(command, "rise %ld", &bytes) == 1) {
			rise_to(bytes, rise_here);
		} else if (sscanf(command, "fall %ld", &bytes) == 1) {
			fall_to(bytes);
		} else if (sscanf(command, "spike %ld", &bytes) == 1) {
			long before = count * SIZE;

			rise_to(bytes, spike_here);
			fall_to(before);
		} else if (strcmp(command, "touch")) {
			return 0;
		}
		answer("{\"done\": {\"count\": %ld, \"size\": %ld}}", count, count * SIZE);
		if (!strcmp(command, "touch"))
			touch();
	}
}
