// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sums of processes whose budgets took samples for a time: of a row, each process has many blocks from the time when
 * every block was recorded, and few or no samples of the others. Do the intervals of the sum hold the truth?
 */
#include "engine/presummed.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine_random.h"

TestSuite(engine_tally_rates, .timeout = 600);

#define RUNS 1000
#define BLOCK_BYTES 200

/* Each process has so many blocks of either time, and a rate of samples in the second one. */
struct crowd {
	const char *name;
	uint32_t process_nr, whole, thinned;
	double rate[3];	/* of processes in turns */
};

static const struct crowd crowds[] = {
	{ "one process", 1, 50, 20, { 4096, 4096, 4096 } },
	{ "five processes, hardly a sample", 5, 50, 5, { 4096, 4096, 4096 } },
	{ "forty processes, a few samples", 40, 50, 5, { 16384, 16384, 16384 } },
	{ "forty processes with different rates", 40, 10, 30, { 4096, 16384, 65536 } },
	{ "forty processes, many samples", 40, 10, 200, { 4096, 16384, 4096 } },
	{ "one coarse rate among fine ones", 30, 20, 20, { 4096, 4096, 65536 } },
};

static double weight_at(double rate)
{
	return -1 / expm1(-BLOCK_BYTES / rate);
}

static void record_process(const struct crowd *crowd, double rate, uint64_t *random, struct cost *cost, struct sums *sums)
{
	struct sums total = {};

	for (uint32_t i = 0; i < crowd->whole + crowd->thinned; i++) {
		double weight = i < crowd->whole ? 1 : weight_at(rate);

		if (random_below(random, 1 << 30) * weight >= 1 << 30)
			continue;
		cost->size += BLOCK_BYTES;
		cost->count++;
		sums_add_block(sums, &total, BLOCK_BYTES, weight, 0);
	}
}

/* Whether the intervals of the sum hold the truth: of bytes, of blocks. */
static void ask_crowd(const struct crowd *crowd, const struct snapshot *dictionary, uint64_t *random, double unseen,
		      uint32_t held[2])
{
	int64_t blocks = crowd->process_nr * (crowd->whole + crowd->thinned);
	struct cost cost[ORIGIN_NR] = {};
	struct sums sums[ORIGIN_NR] = {};
	const struct tally tally = { cost, sums, unseen };
	struct statistics *got = NULL;
	const struct estimate *estimate;

	for (uint32_t i = 0; i < crowd->process_nr; i++)
		record_process(crowd, crowd->rate[i % 3], random, &cost[0], &sums[0]);
	cr_assert_eq(tally_statistics(dictionary, &tally, &(struct engine_options){}, &got, NULL), 0);
	estimate = got->total_estimate;
	cr_assert(estimate->has_count);
	held[0] += estimate->size.low <= blocks * BLOCK_BYTES && blocks * BLOCK_BYTES <= estimate->size.high;
	held[1] += estimate->count.low <= blocks && blocks <= estimate->count.high;
	statistics_free(got);
}

static double coarsest(const struct crowd *crowd)
{
	return fmax(crowd->rate[0], crowd->process_nr > 2 ? fmax(crowd->rate[1], crowd->rate[2]) : 0);
}

static double least_held(const struct crowd *crowd, double unseen)
{
	struct data_trace origin[ORIGIN_NR];
	struct data_snapshot dictionary;
	uint64_t random = 42;
	uint32_t held[2] = {};

	random_origins(&random, origin);
	dictionary = data_snapshot_with(origin, ORIGIN_NR, random_metadata);
	for (int i = 0; i < RUNS; i++)
		ask_crowd(crowd, dictionary.snapshot, &random, unseen, held);
	data_release(&dictionary);
	return fmin(held[0], held[1]) / RUNS;
}

Test(engine_tally_rates, intervals_of_sums_hold_the_truth)
{
	for (size_t i = 0; i < ARRAY_SIZE(crowds); i++) {
		double held = least_held(&crowds[i], coarsest(&crowds[i]));

		cr_log_info("%s: %.3f", crowds[i].name, held);
		cr_expect_geq(held, 0.93, "%s: %.3f", crowds[i].name, held);
	}
}

/* The samples alone say too little where there are few. */
Test(engine_tally_rates, intervals_without_the_rate_do_not)
{
	cr_expect_lt(least_held(&crowds[0], 0), 0.8);
	cr_expect_lt(least_held(&crowds[1], 0), 0.8);
}

/* The addition is that of one process, so it is little for many. */
Test(engine_tally_rates, intervals_do_not_grow_with_the_processes)
{
	struct data_trace origin[ORIGIN_NR];
	struct cost cost[ORIGIN_NR] = { { 1 << 20, 1000 } };
	struct sums sums[ORIGIN_NR] = {};
	const struct tally tally = { cost, sums, 4096 };
	struct data_snapshot dictionary;
	struct statistics *got = NULL;
	uint64_t random = 1;

	random_origins(&random, origin);
	dictionary = data_snapshot_with(origin, ORIGIN_NR, random_metadata);
	cr_assert_eq(tally_statistics(dictionary.snapshot, &tally, &(struct engine_options){}, &got, NULL), 0);
	cr_expect_eq(got->total_estimate->size.low, 1 << 20);
	cr_expect(got->total_estimate->size.high > (1 << 20) + 20000 && got->total_estimate->size.high < (1 << 20) + 23000);
	statistics_free(got);
	data_release(&dictionary);
}
