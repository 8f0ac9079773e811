// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Keeps the blocks that instants.h describes, at full speed, from "go" on until stdin ends. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "instants.h"
#include "workload.h"

static void *slot[WORKERS][SLOTS];
static void *volatile ballast[BALLAST];
static _Atomic(void *) mailbox[WORKERS][SLOTS]; /* for worker i to free */

static SITE void free_mail(int worker)
{
	for (int i = 0; i < SLOTS; i++) {
		void *block = atomic_load(&mailbox[worker][i]);

		if (!block)
			continue;
		free(block);
		atomic_store(&mailbox[worker][i], NULL);
	}
}

static void *must(void *block)
{
	if (!block)
		abort();
	return block;
}

static void lift(int worker, int i, unsigned int generation)
{
	int other = (worker + 1) % WORKERS;
	size_t size = SIZE_OF(worker, i, generation);
	void *old = slot[worker][i];

	if (WAY_OF(i) == WAY_REALLOC) {
		slot[worker][i] = must(realloc(old, size));
		return;
	}
	slot[worker][i] = must(malloc(size));
	if (WAY_OF(i) == WAY_FREE)
		free(old);
	else
		atomic_store(&mailbox[other][i], old);
}

/* No block of an earlier generation is live when the next generation begins. */
static void wait_for_other(int worker)
{
	int other = (worker + 1) % WORKERS;

	for (int i = 0; i < SLOTS; i++)
		while (atomic_load(&mailbox[other][i])) {
			free_mail(worker);
			sched_yield();
		}
}

static void *work(void *argument)
{
	int worker = (int)(intptr_t)argument;

	for (unsigned int generation = 1;; generation++) {
		for (int i = 0; i < SLOTS; i++) {
			lift(worker, i, generation);
			free_mail(worker);
		}
		wait_for_other(worker);
	}
	return NULL;
}

static void begin(void)
{
	pthread_t thread;

	for (int i = 0; i < BALLAST; i++)
		ballast[i] = must(malloc(BALLAST_BYTES));
	for (int worker = 0; worker < WORKERS; worker++)
		for (int i = 0; i < SLOTS; i++)
			slot[worker][i] = must(malloc(SIZE_OF(worker, i, 0)));
	answer("{\"done\": \"begin\"}");
	for (int worker = 0; worker < WORKERS; worker++)
		pthread_create(&thread, NULL, work, (void *)(intptr_t)worker);
}

int main(void)
{
	ready();
	while (strcmp(next_command(), "quit"))
		begin();
	return 0;
}
