// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The set of samples, the weights and the distances by themselves, built with ThreadSanitizer and with ASan and UBSan:
 * threads enter and remove addresses of their own, and each must get back what it has entered, once.
 */
#include "sampler/sampled_set.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define OPS 60000
#define LIVE 1500

static long failures;

static void expect(bool is_good, const char *what)
{
	if (!is_good && __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) < 20)
		fprintf(stderr, "set_races: %s\n", what);
}

static void *run_thread(void *argument)
{
	uint64_t nr = (uintptr_t)argument, x = nr + 1, address[LIVE] = {};
	struct sampled_block block;

	for (int i = 0; i < OPS; i++) {
		uint64_t *one = &address[(x = poisson_mix(x + 1)) % LIVE];

		if (*one) {
			expect(filter_may_have(*one), "the filter does not know an address");
			expect(set_remove(*one, &block), "an address is lost");
			expect(block.size == (*one >> 4 & 0xffff) && block.weight == *one, "the block of another address");
			expect(!set_remove(*one, &block), "an address is there twice");
			*one = 0;
			continue;
		}
		/* Threads have different addresses of the same pages. */
		*one = (x >> 40 & 0xffff) << 12 | (i % 64) << 6 | nr << 4 | UINT64_C(0x7f) << 40;
		for (int j = 0; j < LIVE; j++)
			if (&address[j] != one && address[j] == *one)
				*one = 0;
		if (*one)
			expect(set_enter(*one, (struct sampled_block){ *one >> 4 & 0xffff, *one }), "no room");
	}
	for (int i = 0; i < LIVE; i++)
		if (address[i])
			expect(set_remove(address[i], &block), "an address is lost at the end");
	return NULL;
}

static void check_set(void)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, run_thread, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 0; i < FILTER_PLACES; i++)
		expect(!filter[i], "a place of the filter is not 0 at the end");
	for (int i = 0; i < SET_BUCKETS * 8; i++)
		expect(!set_bucket[i / 8].address[i % 8], "a slot is not empty at the end");
}

static void check_weights(void)
{
	for (double interval = 1; interval <= 1ul << 40; interval = ceil(interval * 5))
		for (double size = 1; size < interval * 100 && size < 1e15; size = ceil(size * 1.1)) {
			double weight = poisson_weight(size, interval), truth = size / -expm1(-size / interval);

			expect(fabs(weight - truth) <= 1 + 1e-6 * truth, "a weight is wrong");
			expect(weight >= size, "a weight is below the size");
		}
}

/* Mean, deviation and four parts of the distribution: within five standard errors. */
static void check_distances(uint64_t interval)
{
	static const double part[] = { .01, .5, 1, 3 };
	double sum = 0, squares = 0, n = 400000;
	long below[4] = {};

	for (int i = 0; i < n; i++) {
		double distance = (poisson_distance(poisson_mix(i * POISSON_GOLDEN), interval) + .5) / interval;

		sum += distance;
		squares += distance * distance;
		for (int j = 0; j < 4; j++)
			below[j] += distance < part[j];
	}
	expect(fabs(sum / n - 1) < 5 / sqrt(n), "the mean distance is wrong");
	expect(fabs(squares / n - 2) < 5 * sqrt(20 / n), "the deviation of distances is wrong");
	for (int j = 0; j < 4; j++) {
		double p = -expm1(-part[j]);

		expect(fabs(below[j] - n * p) < 5 * sqrt(n * p * (1 - p)), "the distribution of distances is wrong");
	}
	expect(poisson_distance(UINT64_MAX, interval) <= interval / 1e8 && poisson_distance(0, interval) <= 45 * interval,
	       "the ends of the distances");
}

int main(void)
{
	check_set();
	check_weights();
	for (uint64_t interval = 1000; interval <= 1ul << 40; interval *= 32)
		check_distances(interval);
	printf("set_races: %ld failed\n", failures);
	return failures != 0;
}
