// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pairs: makes calls of malloc and free as fast as it can, and counts them. Commands:
 *	go THREADS PAIRS   that many pairs in each of THREADS threads (1: in this one)
 *	run MS             pairs for that time: {"pairs": N, "cpu_ns": the process's CPU time}
 *	keep N             N blocks of 1000 bytes that stay; "drop" frees them
 *	quit, crash, …     as in workload.h
 */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "workload.h"

#define KEPT_MAX 100000
#define THREADS_MAX 64

static void *kept[KEPT_MAX];
static int kept_nr;

static uint64_t time_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

SITE static void make_pairs(long nr)
{
	void *volatile own;

	for (long i = 0; i < nr; i++) {
		own = malloc(100);
		free(own);
	}
}

static void *pairs_of_thread(void *nr)
{
	make_pairs((intptr_t)nr);
	return NULL;
}

static void go(const char *command)
{
	pthread_t thread[THREADS_MAX];
	long threads = 1, nr = 0;

	sscanf(command, "go %ld %ld", &threads, &nr);
	if (threads == 1)
		make_pairs(nr);
	for (long i = 0; threads > 1 && i < threads; i++)
		pthread_create(&thread[i], NULL, pairs_of_thread, (void *)nr);
	for (long i = 0; threads > 1 && i < threads; i++)
		pthread_join(thread[i], NULL);
	answer("{\"done\": %ld}", threads * nr);
}

static void run(long ms)
{
	uint64_t cpu_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t end_ns = time_ns(CLOCK_MONOTONIC) + ms * 1000000;
	long nr = 0;

	for (; time_ns(CLOCK_MONOTONIC) < end_ns; nr += 1000)
		make_pairs(1000);
	cpu_ns = time_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns;
	answer("{\"done\": {\"pairs\": %ld, \"cpu_ns\": %ld}}", nr, (long)cpu_ns);
}

SITE static void keep(int nr)
{
	for (int i = 0; i < nr && kept_nr < KEPT_MAX; i++)
		kept[kept_nr++] = malloc(1000);
	answer("{\"done\": %d}", kept_nr);
}

SITE static void drop(void)
{
	while (kept_nr)
		free(kept[--kept_nr]);
	answer("{\"done\": 0}");
}

int main(void)
{
	const char *command;

	ready();
	while (strcmp(command = next_command(), "quit")) {
		end_at_once(command);
		if (!strncmp(command, "go ", 3))
			go(command);
		else if (!strncmp(command, "run ", 4))
			run(atol(command + 4));
		else if (!strncmp(command, "keep ", 5))
			keep(atoi(command + 5));
		else if (!strcmp(command, "drop"))
			drop();
	}
	return 0;
}
