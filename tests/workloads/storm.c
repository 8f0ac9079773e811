// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Eight threads that make every kind of allocator call, on blocks that all of them share: any thread
 * frees, grows and shrinks any block, impossible sizes are requested, threads come and go, addresses
 * are used again at once. Each block has its size in its first bytes; the program aborts if a size is
 * wrong.
 *
 *	go      one round; then all threads stand still
 *	go on   rounds until there is another command
 *	free    frees all that is live
 *	quit
 */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "workload.h"

#define THREADS 8
#define STEPS 6007
#define SLOT_NR 499
#define CHURN_EVERY 991
#define CHURN_STEPS 101

static _Atomic(size_t *) slot[SLOT_NR]; /* a thread that takes a block out of a slot owns the block */
static pthread_barrier_t begin, end;
static bool quitting;
static volatile size_t huge = SIZE_MAX / 4;
static volatile size_t bad_alignment = 3;

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Most are small. */
static size_t random_size(uint64_t *state)
{
	uint64_t random = next_random(state);

	return 8 + random % (random % 61 ? 509 : 70001);
}

static size_t *say_size(void *p, size_t size)
{
	size_t *block = p;

	if (!block)
		abort();
	*block = size;
	return block;
}

static size_t *check(size_t *block)
{
	if (block && (*block < 8 || *block > 200000))
		abort();
	return block;
}

static void drop(size_t *block)
{
	if (block)
		*check(block) = 0;
	free(block);
}

static void give(uint64_t *state, size_t *block)
{
	drop(atomic_exchange(&slot[next_random(state) % SLOT_NR], block));
}

static size_t *get(uint64_t *state)
{
	return check(atomic_exchange(&slot[next_random(state) % SLOT_NR], NULL));
}

static void fail(uint64_t *state)
{
	size_t *block = get(state);
	size_t size = block ? *block : 0;
	void *p;

	if (malloc(huge) || calloc(huge, 8) || !posix_memalign(&p, bad_alignment, 8))
		abort();
	if (!block)
		return;
	if (realloc(block, huge) || reallocarray(block, huge, 8) || *block != size)
		abort();
	give(state, block);
}

static void align(uint64_t *state, size_t size)
{
	void *p;

	switch (next_random(state) % 4) {
	case 0:
		if (posix_memalign(&p, 64, size))
			abort();
		break;
	case 1:
		p = aligned_alloc(32, (size + 31) & ~31UL);
		break;
	case 2:
		p = memalign(256, size);
		break;
	default:
		p = valloc(size);
	}
	give(state, say_size(p, size));
}

/* A block of any thread; or none, which makes realloc a malloc. */
static void move(uint64_t *state, size_t size)
{
	size_t *block = get(state);

	if (next_random(state) % 5)
		block = realloc(block, size);
	else
		block = reallocarray(block, (size + 6) / 7, 7);
	give(state, say_size(block, size));
}

static void realloc_zero(uint64_t *state)
{
	size_t *block = get(state);

	if (block && realloc(block, 0))
		abort();
}

static void step(uint64_t *state)
{
	size_t size = random_size(state);

	switch (next_random(state) % 16) {
	case 0 ... 4:
		give(state, say_size(malloc(size), size));
		break;
	case 5 ... 6:
		give(state, say_size(calloc((size + 12) / 13, 13), size));
		break;
	case 7 ... 10:
		move(state, size);
		break;
	case 11:
		align(state, size);
		break;
	case 12:
		fail(state);
		break;
	case 13:
		realloc_zero(state);
		break;
	default:
		drop(get(state));
	}
}

static void *live_shortly(void *seed)
{
	uint64_t state = (uint64_t)seed;

	for (int i = 0; i < CHURN_STEPS; i++)
		step(&state);
	return NULL;
}

static void churn(uint64_t *state)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, live_shortly, (void *)(next_random(state) | 1)))
		abort();
	pthread_join(thread, NULL);
}

static void *run(void *seed)
{
	uint64_t state = (uint64_t)seed * 0x9e3779b97f4a7c15;

	for (;;) {
		pthread_barrier_wait(&begin);
		if (quitting)
			return NULL;
		for (int i = 0; i < STEPS; i++) {
			step(&state);
			if (i % CHURN_EVERY == CHURN_EVERY - 1)
				churn(&state);
		}
		pthread_barrier_wait(&end);
	}
}

static void go(void)
{
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
}

static bool is_told(void)
{
	return poll(&(struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN }, 1, 0) > 0;
}

static void obey(void)
{
	for (;;) {
		const char *command = next_command();
		int live = 0;

		if (!strcmp(command, "quit"))
			return;
		if (!strcmp(command, "go"))
			go();
		if (!strcmp(command, "go on"))
			while (!is_told())
				go();
		for (int i = 0; i < SLOT_NR; i++) {
			if (!strcmp(command, "free"))
				drop(atomic_exchange(&slot[i], NULL));
			live += !!slot[i];
		}
		answer("{\"done\": {\"count\": %d}}", live);
	}
}

int main(void)
{
	pthread_t thread[THREADS];

	pthread_barrier_init(&begin, NULL, THREADS + 1);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run, (void *)(i + 1));
	ready();
	obey();
	quitting = true;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
