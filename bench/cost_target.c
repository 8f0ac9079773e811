// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * cost_target IN OUT: pairs of malloc and free in a tight loop, ten frames deep. Each line "THREADS PATHS PAIRS" of
 * descriptor IN orders that many threads, which call by so many paths (1: all by the same), to make so many pairs
 * each. Writes to OUT the ns of its thread's processor time that a pair took. Built with and without frame pointers,
 * and without folding identical functions, which would leave one of the two paths.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define THREADS_MAX 2
#define BLOCK_BYTES 64

static volatile unsigned int sink;
static pthread_barrier_t begin;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Each path has ten frames: run(), two of the C library below it, six links, and the loop. */
#define LOOP(path)                                                                                 \
	static NOINLINE double loop_##path(unsigned long pairs)                                    \
	{                                                                                          \
		double begun;                                                                      \
                                                                                                   \
		pthread_barrier_wait(&begin);                                                      \
		begun = now_ns();                                                                  \
		for (unsigned long i = 0; i < pairs; i++) {                                        \
			void *block = malloc(BLOCK_BYTES);                                         \
                                                                                                   \
			__asm__ volatile("" : "+r"(block));                                        \
			free(block);                                                               \
		}                                                                                  \
		return now_ns() - begun;                                                           \
	}

/* The code after the call keeps the compiler from turning it into a jump. */
#define LINK(path, nr, next)                                                                       \
	static NOINLINE double path##_##nr(unsigned long pairs)                                    \
	{                                                                                          \
		volatile unsigned int local[nr * 4 + 1];                                           \
		double ns;                                                                         \
                                                                                                   \
		local[0] = nr;                                                                     \
		ns = next(pairs);                                                                  \
		sink += local[0];                                                                  \
		return ns;                                                                         \
	}

#define PATH(path)                                                                                 \
	LOOP(path)                                                                                 \
	LINK(path, 6, loop_##path) LINK(path, 5, path##_6) LINK(path, 4, path##_5)                 \
	LINK(path, 3, path##_4) LINK(path, 2, path##_3) LINK(path, 1, path##_2)

PATH(left)
PATH(right)

struct worker {
	pthread_t thread;
	double (*path)(unsigned long pairs);
	unsigned long pairs;
	double ns;
};

static void *run(void *argument)
{
	struct worker *worker = argument;

	worker->ns = worker->path(worker->pairs);
	return NULL;
}

static double measure(unsigned int threads, unsigned int paths, unsigned long pairs)
{
	struct worker worker[THREADS_MAX];
	double ns = 0;

	pthread_barrier_init(&begin, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		worker[i] = (struct worker){ .path = i % paths ? right_1 : left_1, .pairs = pairs };
		if (pthread_create(&worker[i].thread, NULL, run, &worker[i]))
			abort();
	}
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(worker[i].thread, NULL);
		ns += worker[i].ns;
	}
	pthread_barrier_destroy(&begin);
	return ns / threads / pairs;
}

int main(int argc, char **argv)
{
	FILE *in = argc == 3 ? fdopen(atoi(argv[1]), "r") : NULL;
	FILE *out = argc == 3 ? fdopen(atoi(argv[2]), "w") : NULL;
	unsigned int threads, paths;
	unsigned long pairs;

	if (!in || !out) {
		fprintf(stderr, "usage: cost_target IN OUT\n");
		return 2;
	}
	while (fscanf(in, "%u %u %lu", &threads, &paths, &pairs) == 3) {
		if (threads < 1 || threads > THREADS_MAX || paths < 1 || !pairs)
			return 2;
		fprintf(out, "%.2f\n", measure(threads, paths, pairs));
		fflush(out);
	}
	return 0;
}
