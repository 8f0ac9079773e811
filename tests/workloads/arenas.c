// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * arenas THREADS: threads that allocate and free at random, in arenas of their own, and say what they hold. Commands:
 *
 *	churn N SEED	each thread allocates or frees N times, then all stand still
 *	run SEED	the same, until the next command
 *	sum		a line for each size class: {"chunk_bytes": MOST, "count": N, "bytes": B} of live chunks by the program's own
 *			ledger, then {"done": …} with what mallinfo2() says
 *	forge WHAT	damages the heap as an attacker would; the program allocates no more
 */

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "workload.h"

#define THREADS_MOST 64
#define SLOTS 4096

static struct worker {
	pthread_t thread;
	void *slot[SLOTS];
	uint64_t random;
} workers[THREADS_MOST];

static int worker_nr;
static pthread_barrier_t begin, end;
static atomic_bool goes_on;
static uint64_t steps;

static uint64_t draw(struct worker *worker)
{
	worker->random ^= worker->random << 13;
	worker->random ^= worker->random >> 7;
	worker->random ^= worker->random << 17;
	return worker->random;
}

static size_t draw_size(struct worker *worker)
{
	uint64_t which = draw(worker) % 1000;

	if (which < 700)
		return 1 + draw(worker) % 1024;
	if (which < 960)
		return 1 + draw(worker) % 16384;
	if (which < 995)
		return 1 + draw(worker) % 100000;
	return 200000 + draw(worker) % 1000000;
}

static void step(struct worker *worker)
{
	void **slot = &worker->slot[draw(worker) % SLOTS];

	if (*slot) {
		free(*slot);
		*slot = NULL;
	} else {
		*slot = malloc(draw_size(worker));
		if (*slot)
			memset(*slot, 0x5a, malloc_usable_size(*slot) < 64 ? malloc_usable_size(*slot) : 64);
	}
}

static void *work(void *arg)
{
	struct worker *worker = arg;
	void *volatile first = malloc(1); /* makes its arena and tcache */

	free(first);
	for (;;) {
		pthread_barrier_wait(&begin);
		for (uint64_t i = 0; i < steps || goes_on; i++)
			step(worker);
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void seed(uint64_t with)
{
	for (int i = 0; i < worker_nr; i++)
		workers[i].random = with * 1000003 + i * 7919 + 1;
}

/* ---- the ledger ---- */

#define CLASSES 101

static uint64_t class_most(size_t class)
{
	return class < 64 ? 32 + 16 * class : UINT64_C(1) << (class - 53);
}

static void sum(void)
{
	static uint64_t count[CLASSES], bytes[CLASSES];
	struct mallinfo2 info = mallinfo2();

	memset(count, 0, sizeof(count));
	memset(bytes, 0, sizeof(bytes));
	for (int i = 0; i < worker_nr; i++)
		for (size_t j = 0; j < SLOTS; j++) {
			uint64_t *block = workers[i].slot[j];
			uint64_t chunk = block ? block[-1] & -8 : 0;
			size_t class = 0;

			if (!block)
				continue;
			while (class_most(class) < chunk)
				class++;
			count[class]++;
			bytes[class] += chunk;
		}
	for (size_t i = 0; i < CLASSES; i++)
		if (count[i])
			answer("{\"chunk_bytes\": %lu, \"count\": %lu, \"bytes\": %lu}", class_most(i), count[i], bytes[i]);
	answer("{\"done\": {\"arena\": %zu, \"ordblks\": %zu, \"smblks\": %zu, \"hblks\": %zu, \"hblkhd\": %zu, \"fsmblks\": %zu, "
	       "\"uordblks\": %zu, \"fordblks\": %zu}}",
	       info.arena, info.ordblks, info.smblks, info.hblks, info.hblkhd, info.fsmblks, info.uordblks, info.fordblks);
}

/* ---- damage ---- */

static bool forge(const char *what)
{
	uint64_t *block[8], *volatile freed[3];

	for (size_t i = 0; i < 8; i++)
		block[i] = malloc(i < 7 ? 24 : 5000);
	memcpy((void *)freed, block, sizeof(freed));
	if (!strcmp(what, "size-zero"))
		block[3][-1] = 0;
	else if (!strcmp(what, "size-huge"))
		block[3][-1] = UINT64_C(1) << 60 | 1;
	else if (!strcmp(what, "size-odd"))
		block[3][-1] = 0x29;
	else if (!strcmp(what, "top")) /* the end of the heap */
		block[7][malloc_usable_size(block[7]) / 8] = ~UINT64_C(0);
	else if (!strcmp(what, "list")) { /* free chunks in a circle */
		for (size_t i = 0; i < 3; i++)
			free(block[i]);
		for (size_t i = 0; i < 3; i++)
			freed[i][0] = (uintptr_t)freed[(i + 1) % 3] ^ (uintptr_t)freed[i] >> 12;
	} else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	const char *command;

	worker_nr = argc > 1 ? atoi(argv[1]) : 1;
	if (worker_nr < 1 || worker_nr > THREADS_MOST)
		return 1;
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* the kernel's thread for huge pages adds to idle memory while it is read */
	pthread_barrier_init(&begin, NULL, worker_nr + 1);
	pthread_barrier_init(&end, NULL, worker_nr + 1);
	for (int i = 0; i < worker_nr; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	ready();
	for (command = next_command(); strcmp(command, "quit"); command = next_command()) {
		unsigned long nr, with;
		bool is_run = sscanf(command, "run %lu", &with) == 1;

		if (atomic_exchange(&goes_on, false))
			pthread_barrier_wait(&end);
		if (is_run || sscanf(command, "churn %lu %lu", &nr, &with) == 2) {
			seed(with);
			steps = is_run ? 0 : nr;
			goes_on = is_run;
			pthread_barrier_wait(&begin);
			if (!is_run)
				pthread_barrier_wait(&end);
			answer("{\"done\": true}");
		} else if (!strcmp(command, "sum"))
			sum();
		else if (!strncmp(command, "forge ", 6) && forge(command + 6))
			answer("{\"done\": true}");
		else
			return 1;
	}
	return 0;
}
