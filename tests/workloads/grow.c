// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * grow [SECONDS] (default 600): one site grows by 1021 bytes a block, ten blocks every 10 ms; two
 * others replace their blocks all the time and stay as large as they are.
 */
#include <time.h>

#include "workload.h"

#define GROW_SIZE 1021
#define RING_A 101
#define RING_B 53

struct node {
	struct node *next;
	char bytes[GROW_SIZE - sizeof(struct node *)];
} __attribute__((packed));

static struct node *list;
static void *ring_a[RING_A], *ring_b[RING_B];

SITE static void grow_here(void)
{
	struct node *node = malloc(GROW_SIZE);

	node->next = list;
	list = node;
}

SITE static void churn_a(unsigned int step)
{
	free(ring_a[step % RING_A]);
	ring_a[step % RING_A] = malloc(499);
}

SITE static void churn_b(unsigned int step)
{
	free(ring_b[step % RING_B]);
	ring_b[step % RING_B] = malloc(1999);
}

int main(int argc, char **argv)
{
	time_t last = time(NULL) + (argc > 1 ? atoi(argv[1]) : 600);

	ready();
	for (unsigned int step = 0; time(NULL) < last; step++) {
		churn_a(step);
		churn_b(step);
		if (step % 4 == 0)
			for (int i = 0; i < 10; i++)
				grow_here();
		nanosleep(&(struct timespec){ .tv_nsec = 2500000 }, NULL);
	}
	return 0;
}
