// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * pair_target IN OUT: pairs of malloc and free at some depth. Each line "SHAPE THREADS FRAMES PAIRS" of descriptor IN orders
 * so many pairs in each of so many threads, that deep. Writes to OUT the ns of its thread's CPU time that a pair took.
 *
 *	same	a tight loop: always the same path
 *	turns	each pair comes by another path through the last five frames
 *	down	goes down 16 frames for each pair
 *	held	20,000 blocks of random sizes are live; a pair frees a random one, and allocates another
 *
 * Built without frame pointers.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
#define THREADS_MAX 2
#define BLOCK_BYTES 64
#define HELD 20000
#define TURNS 4 /* below the first one of turn_left() and turn_right() */
#define DOWN 16

struct order {
	double (*measure)(long pairs);
	unsigned int threads;
	int depth; /* of the calls above measure() */
	long pairs;
	double ns;
};

static volatile unsigned int sink;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1103515245 + 12345;
	return *state >> 8;
}

static inline __attribute__((always_inline)) void make_pair(void)
{
	void *block = malloc(BLOCK_BYTES);

	__asm__ volatile("" : "+r"(block));
	free(block);
}

/* ---- shapes ---- */

static NOINLINE double measure_same(long pairs)
{
	double begun = now_ns();

	for (long i = 0; i < pairs; i++)
		make_pair();
	return now_ns() - begun;
}

static NOINLINE void turn_left(unsigned int path, int more);

/* The code after the call keeps the compiler from turning it into a jump. */
#define TURN(name, words)                                                                          \
	static NOINLINE void name(unsigned int path, int more)                                     \
	{                                                                                          \
		volatile unsigned int local[words];                                                \
                                                                                                   \
		local[0] = path;                                                                   \
		if (!more)                                                                         \
			make_pair();                                                               \
		else if (path & 1)                                                                 \
			turn_left(path >> 1, more - 1);                                            \
		else                                                                               \
			turn_right(path >> 1, more - 1);                                           \
		sink += local[0];                                                                  \
	}

static NOINLINE void turn_right(unsigned int path, int more);
TURN(turn_right, 5)
TURN(turn_left, 9)

static NOINLINE double measure_turns(long pairs)
{
	double begun = now_ns();
	uint32_t random = 1;

	for (long i = 0; i < pairs; i++)
		turn_left(next_random(&random), TURNS);
	return now_ns() - begun;
}

static NOINLINE double measure_down(long pairs)
{
	double begun = now_ns();

	for (long i = 0; i < pairs; i++)
		turn_left(0, DOWN - 1);
	return now_ns() - begun;
}

static NOINLINE double measure_held(long pairs)
{
	static void *held[HELD];
	uint32_t random = 1;
	double ns;

	for (int i = 0; i < HELD; i++)
		held[i] = malloc(16 + next_random(&random) % 500);
	ns = now_ns();
	for (long i = 0; i < pairs; i++) {
		unsigned int at = next_random(&random) % HELD;

		free(held[at]);
		held[at] = malloc(16 + next_random(&random) % 500);
	}
	ns = now_ns() - ns;
	for (int i = 0; i < HELD; i++)
		free(held[i]);
	return ns;
}

/* `below`: frames between measure() and the allocator, measure() itself included. */
static const struct shape {
	const char *name;
	double (*measure)(long pairs);
	int below;
	unsigned int threads_max;
} shapes[] = {
	{ "same", measure_same, 1, THREADS_MAX },
	{ "turns", measure_turns, 2 + TURNS, THREADS_MAX },
	{ "down", measure_down, 1 + DOWN, THREADS_MAX },
	{ "held", measure_held, 1, 1 },
};

/* ---- depth ---- */

static NOINLINE double descend(const struct order *order, int more)
{
	volatile unsigned int local[7];
	double ns;

	local[0] = more;
	ns = more > 0 ? descend(order, more - 1) : order->measure(order->pairs);
	sink += local[0];
	return ns;
}

#define ABOVE 4 /* run(), two of the C library, and the last descend() */

static void *run(void *argument)
{
	struct order *order = argument;

	order->ns = descend(order, order->depth);
	return NULL;
}

static double measure(const struct order *order)
{
	struct order own[THREADS_MAX];
	pthread_t thread[THREADS_MAX];
	double ns = 0;

	for (unsigned int i = 0; i < order->threads; i++) {
		own[i] = *order;
		if (pthread_create(&thread[i], NULL, run, &own[i]))
			abort();
	}
	for (unsigned int i = 0; i < order->threads; i++) {
		pthread_join(thread[i], NULL);
		ns += own[i].ns;
	}
	return ns / order->threads / order->pairs;
}

static const struct shape *find_shape(const char *name)
{
	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
		if (!strcmp(name, shapes[i].name))
			return &shapes[i];
	return NULL;
}

int main(int argc, char **argv)
{
	FILE *in = argc == 3 ? fdopen(atoi(argv[1]), "r") : NULL;
	FILE *out = argc == 3 ? fdopen(atoi(argv[2]), "w") : NULL;
	const struct shape *shape;
	struct order order;
	char name[16];
	int frames;

	if (!in || !out) {
		fprintf(stderr, "usage: pair_target IN OUT\n");
		return 2;
	}
	while (fscanf(in, "%15s %u %d %ld", name, &order.threads, &frames, &order.pairs) == 4) {
		shape = find_shape(name);
		if (!shape || order.threads < 1 || order.threads > shape->threads_max || order.pairs < 1 ||
		    frames < ABOVE + shape->below)
			return 2;
		order.measure = shape->measure;
		order.depth = frames - ABOVE - shape->below;
		fprintf(out, "%.2f\n", measure(&order));
		fflush(out);
	}
	return 0;
}
