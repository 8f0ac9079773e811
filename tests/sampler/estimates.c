// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Recordings with known answers: in each round new threads allocate in all ways, and free and resize their own and each
 * other's blocks; at its end the estimate of what is live stands beside the truth, and all is freed.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "exercise.h"
#include "ledger_ops.h"
#include "trap.h"

#define SLOTS 2048
#define OPS 4096 /* of all threads in a round */
#define THREADS_MAX 64

/* A thread has a slot while it holds `is_busy`. */
static struct slot {
	atomic_flag is_busy;
	struct block block;
} slots[SLOTS];

struct work {
	pthread_t thread;
	uint64_t random;
	int ops;
	bool changes_interval;
};

/* A signal handler frees blocks and allocates others, between two calls of its thread. */
static __thread struct block of_handler;

static void on_signal(int nr)
{
	struct events kept = seen;

	(void)nr;
	block_free(&of_handler);
	of_handler = block_allocate(WAY_MALLOC, 777);
	seen = kept;
}

static size_t pick_size(uint64_t random)
{
	if (random % 64 == 0)
		return 1 + (random >> 8) % 200000;
	return 1 + (random >> 8) % (random % 8 ? 600 : 6000);
}

/*
 * Waits. If the thread went on with another slot instead, blocks would live longer whose threads take longer to allocate
 * them, and those are the samples: estimates would be too high.
 */
static void wait_for_slot(struct slot *slot)
{
	while (atomic_flag_test_and_set(&slot->is_busy))
		sched_yield();
}

static void *run_thread(void *argument)
{
	struct work *work = argument;

	for (int i = 0; i < work->ops; i++) {
		uint64_t random = xorshift(&work->random);
		struct slot *slot = &slots[random % SLOTS];
		size_t size = pick_size(random >> 12);

		wait_for_slot(slot);
		if (work->changes_interval && random >> 58 == 0)
			__atomic_store_n(&trap_info->interval, intervals[random >> 40 & 1], __ATOMIC_RELAXED);
		switch (random >> 60) {
		case 0:
			block_free(&slot->block);
			break;
		case 1:
		case 2:
		case 3:
			block_resize(&slot->block, size);
			break;
		case 4:
			block_resize(&slot->block, PTRDIFF_MAX - 4096);
			break;
		default:
			block_free(&slot->block);
			slot->block = block_allocate((random >> 32) % WAY_NR, size);
		}
		atomic_flag_clear(&slot->is_busy);
		if (random >> 52 & 1)
			raise(SIGUSR1);
	}
	block_free(&of_handler);
	return NULL;
}

struct outcome {
	double truth, truth_variance, estimate, variance;
	long samples;
};

/* The errors of the estimate: as it is by the blocks that are there, and as it seems by the samples. */
static struct outcome add_up(uint64_t interval)
{
	struct outcome sum = {};

	for (int i = 0; i < SLOTS; i++) {
		struct block *block = &slots[i].block;
		double size = block->size;

		if (block->address && size) {
			sum.truth += size;
			sum.truth_variance += size * (weight_of(size, interval) - size);
		}
		if (block->weight) {
			sum.estimate += block->weight;
			sum.variance += block->weight * (block->weight - size);
			sum.samples++;
		}
		block_free(block);
	}
	return sum;
}

static struct outcome run_round(int threads, uint64_t *random, bool changes_interval)
{
	struct work work[THREADS_MAX];

	for (int i = 0; i < threads; i++) {
		work[i] = (struct work){ .random = xorshift(random), .ops = OPS / threads, .changes_interval = changes_interval };
		check(!pthread_create(&work[i].thread, NULL, run_thread, &work[i]), "no thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(work[i].thread, NULL);
	return add_up(intervals[0]);
}

void run_rounds(int rounds, int threads, int changes_interval)
{
	uint64_t random = UINT64_C(0x2545f4914f6cdd1d);
	double z_sum = 0, z_squares = 0, errors = 0, error_squares = 0, bias;
	long covered = 0, samples = 0, dropped = trap_info->dropped;

	if (changes_interval)
		intervals[1] = intervals[0] * 4;
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < rounds; i++) {
		struct outcome sum = run_round(threads, &random, changes_interval);
		double error = sum.estimate - sum.truth, z = error / sqrt(changes_interval ? sum.variance : sum.truth_variance);

		z_sum += z;
		z_squares += z * z;
		errors += error;
		error_squares += error * error;
		covered += fabs(error) <= 1.96 * sqrt(sum.variance);
		samples += sum.samples;
	}
	check(samples > rounds * 20, "only %ld samples are live in %d rounds", samples, rounds);
	check(dropped == (long)trap_info->dropped, "samples were dropped");
	/* A round has mean 0 and variance 1. Limits that chance passes less than once in 100,000 times, also with 20 rounds. */
	bias = z_sum / sqrt(rounds);
	/* While the interval changes, the only variance is that by the samples. It is small where the estimate is small, so
	 * the mean z is below 0 (-0.14) though the mean error is 0: errors are judged by their own spread there.
	 */
	if (changes_interval)
		bias = errors / sqrt(error_squares);
	check(fabs(bias) < 5, "biased: the mean error is %+.0f", errors / rounds);
	if (!changes_interval)
		check(fabs(z_squares - rounds) / sqrt(2 * rounds) < 6, "the mean of z^2 is %.3f", z_squares / rounds);
	check(fabs(covered - .95 * rounds) < 6 * sqrt(.95 * .05 * rounds) + 3, "%ld of %d intervals hold the truth", covered, rounds);
	printf("%d rounds of %d threads: bias %+.2f, mean z^2 %.3f, %.1f %% of intervals hold the truth, %.0f samples\n",
	       rounds, threads, bias, z_squares / rounds, 100. * covered / rounds, (double)samples / rounds);
}
