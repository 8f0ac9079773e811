// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * leaks SECONDS: for so long, lines that leak (leak_*) and lines that only look like it (ok_*), a hundred steps a second.
 * The times of the latter are parts of SECONDS. A line on standard output says that it is over.
 */
#include <time.h>

#include "workload.h"

#define STEP_NS 10000000
#define RING 300
#define CACHE 200
#define BATCH 4096
#define SESSIONS 512
#define POOL 64

static double length, now;

static void *ring[RING], *cache[CACHE], *pool[POOL], *table;
static void *batch[BATCH], *leaky_batch[BATCH];
static size_t batch_nr, leaky_batch_nr, pool_nr, table_size = 64;
static struct {
	void *block;
	double ends;
} session[SESSIONS];
static void *volatile lost;

/* A helper of the program's own: all lines below allocate by it. */
SITE static void *take(size_t bytes)
{
	void *block = malloc(bytes);

	memset(block, 1, bytes);
	return block;
}

SITE static void leak_plain(void) { lost = take(200); }
SITE static void *leak_one_in_50(void) { return take(96); }
SITE static void *leak_of_batch(void) { return take(300); }
SITE static void leak_late(void) { lost = take(150); }
SITE static void *ok_churn(void) { return take(512); }
SITE static void *ok_session(void) { return take(2048); }
SITE static void *ok_ring(void) { return take(1024); }
SITE static void *ok_cache(void) { return take(700); }
SITE static void *ok_batch(void) { return take(900); }
SITE static void ok_warm_up(void) { lost = take(1500); }
SITE static void *ok_pool(void) { return take(8192); }
SITE static void ok_table(void) { table = realloc(table, table_size *= 2); }

static double clock_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static double uniform(void)
{
	return rand() / (RAND_MAX + 1.0);
}

static void free_batches(void)
{
	static double batch_ends, leaky_ends;

	if (now > batch_ends) {
		while (batch_nr)
			free(batch[--batch_nr]);
		batch_ends = now + length * 0.17;
	}
	if (now <= leaky_ends)
		return;
	while (leaky_batch_nr--)
		if (leaky_batch_nr % 10) /* one in ten is forgotten */
			free(leaky_batch[leaky_batch_nr]);
	leaky_batch_nr = 0;
	leaky_ends = now + length * 0.13;
}

static void run_sessions(long step)
{
	int free_slot = -1;

	for (int i = 0; i < SESSIONS; i++) {
		if (session[i].block && session[i].ends < now) {
			free(session[i].block);
			session[i].block = NULL;
		}
		if (!session[i].block)
			free_slot = i;
	}
	if (step % 3 || free_slot < 0)
		return;
	session[free_slot].block = ok_session();
	session[free_slot].ends = now + length * 0.12 * uniform();
}

static int has_late_leak(long step)
{
	return now > length * 0.5 && step % 6 == 0;
}

static void leak(long step)
{
	void *one = leak_one_in_50();

	if (step % 50)
		free(one);
	if (step % 4 == 0)
		leak_plain();
	if (step % 3 == 2 && leaky_batch_nr < BATCH)
		leaky_batch[leaky_batch_nr++] = leak_of_batch();
	if (has_late_leak(step))
		leak_late();
}

static void look_like_it(long step)
{
	int slot = step < length * 20 ? step % CACHE : rand() % CACHE;
	int ring_nr = length * 20 < RING ? length * 20 : RING; /* full after a fifth of the time */

	free(ok_churn());
	free(ring[step % ring_nr]);
	ring[step % ring_nr] = ok_ring();
	if (step % 5 == 0) {
		free(cache[slot]);
		cache[slot] = ok_cache();
	}
	if (step % 3 == 1 && batch_nr < BATCH)
		batch[batch_nr++] = ok_batch();
	if (now < length * 0.2 && step % 2)
		ok_warm_up();
	if (pool_nr < POOL && now < length * 0.3 && uniform() < 0.02)
		pool[pool_nr++] = ok_pool();
	if (now < length * 0.3 && (size_t)step * 8 > table_size)
		ok_table();
}

int main(int argc, char **argv)
{
	struct timespec next;
	int is_late = 0;
	double begin;

	length = argc > 1 ? atof(argv[1]) : 20;
	srand(1);
	ready();
	begin = clock_s();
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (long step = 0; now < length; step++) {
		now = clock_s() - begin;
		run_sessions(step);
		if (!is_late && has_late_leak(step))
			answer("{\"late_ns\": %.0f}", clock_s() * 1e9), is_late = 1;
		leak(step);
		look_like_it(step);
		free_batches();
		next.tv_nsec += STEP_NS; /* on a busy machine it catches up */
		next.tv_sec += next.tv_nsec / 1000000000;
		next.tv_nsec %= 1000000000;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
	answer("{\"done\": %zu}", pool_nr);
	return 0;
}
