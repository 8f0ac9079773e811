// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine/order.h"
#include "engine/tally.h"
#include "engine_data.h"
#include "engine_random.h"
#include "snapshot.h"

/*
 * Sums of many snapshots, asked beside one snapshot that holds all their blocks: every answer must be
 * the same. Weights are binary fractions, so that no sum of doubles is rounded.
 */

TestSuite(engine_tally, .timeout = 600);

#define BLOCK_NR 60 /* at most, of a snapshot */
#define SNAPSHOT_NR 6
#define ROUND_NR 30

/* ---- random fleets ----------------------------------------------------------------------------- */

/* The same blocks twice: as one snapshot, and as a tally's sums per origin. */
struct both {
	struct data_snapshot merged;
	struct cost cost[ORIGIN_NR];
	struct sums sums[ORIGIN_NR];
	bool is_sampled;
};

static struct tally tally_of(const struct both *both)
{
	return (struct tally){ both->cost, both->is_sampled ? both->sums : NULL };
}

static void add_block(struct both *both, uint32_t origin, const struct data_trace *block)
{
	struct sums total = {};

	both->cost[origin].size += block->size;
	both->cost[origin].count++;
	sums_add_block(&both->sums[origin], &total, block->size, block->weight ?: 1, 0);
}

static void make_both(uint64_t *random, const struct data_trace *origin, bool is_sampled,
		      struct both *both)
{
	static const double weights[] = { 1, 1.5, 2, 8 };
	struct data_trace *block = calloc(SNAPSHOT_NR * BLOCK_NR, sizeof(*block));
	size_t nr = 0;

	*both = (struct both){ .is_sampled = is_sampled };
	for (int snapshot = 0; snapshot < SNAPSHOT_NR; snapshot++) {
		bool has_weights = is_sampled && random_below(random, 2);

		for (uint32_t left = random_below(random, BLOCK_NR); left; left--) {
			uint32_t at = random_below(random, ORIGIN_NR * 3 / 4) + snapshot;

			block[nr] = origin[at];
			block[nr].size = random_below(random, 300);
			if (is_sampled)
				block[nr].weight = has_weights ? weights[random_below(random, 4)] : 1;
			add_block(both, at, &block[nr++]);
		}
	}
	both->merged = data_snapshot_with(block, nr, random_metadata);
	free(block);
}

/* ---- the same answers -------------------------------------------------------------------------- */

static void expect_same(const char *what, const struct statistics *got, const struct statistics *want)
{
	cr_assert_eq(got->statistic_nr, want->statistic_nr, "%s: %zu rows, not %zu", what,
		     got->statistic_nr, want->statistic_nr);
	cr_expect(same_cost(&got->total, &want->total) && same_cost(&got->total_diff, &want->total_diff),
		  "%s: the total is %jd (%+jd), not %jd (%+jd)", what, (intmax_t)got->total.size,
		  (intmax_t)got->total_diff.size, (intmax_t)want->total.size,
		  (intmax_t)want->total_diff.size);
	cr_expect(same_estimate(got->total_estimate, want->total_estimate), "%s", what);
	cr_expect(got->is_diff == want->is_diff && got->key_type == want->key_type &&
		  got->cumulative == want->cumulative && got->measure == want->measure, "%s", what);
	for (size_t i = 0; i < want->statistic_nr; i++)
		cr_assert(same_row(&got->statistic[i], &want->statistic[i]), "%s: row %zu of %zu", what, i,
			  want->statistic_nr);
}

static struct statistics *ask_merged(const struct both *old, const struct both *new,
				     const struct engine_options *options)
{
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	int err = old ? snapshot_compare(old->merged.snapshot, new->merged.snapshot, options,
					 &statistics, &why) :
			snapshot_statistics(new->merged.snapshot, options, &statistics, &why);

	cr_assert_eq(err, 0, "%s", why.text);
	return statistics;
}

static struct statistics *ask_tally(const struct snapshot *dictionary, const struct both *old,
				    const struct both *new, const struct engine_options *options)
{
	struct tally before = tally_of(old ?: new), now = tally_of(new);
	struct statistics *statistics = NULL;
	struct reason why = { "" };
	int err = old ? tally_compare(dictionary, &before, &now, options, &statistics, &why) :
			tally_statistics(dictionary, &now, options, &statistics, &why);

	cr_assert_eq(err, 0, "%s", why.text);
	return statistics;
}

static void compare_answers(const struct snapshot *dictionary, const struct both *old,
			    const struct both *new, const struct engine_options *options)
{
	struct statistics *want = ask_merged(old, new, options);
	struct statistics *got = ask_tally(dictionary, old, new, options);
	char what[128];

	snprintf(what, sizeof(what), "%s%s%s, %zu filters%s", key_type_name(options->key_type),
		 options->cumulative ? " cumulative" : "", old ? " diff" : "",
		 options->select.filter_nr, old && new->is_sampled ? ", sampled" : "");
	expect_same(what, got, want);
	statistics_free(want);
	statistics_free(got);
}

static void compare_round(uint64_t *random, bool old_is_sampled, bool new_is_sampled)
{
	static const enum key_type key_types[] = { KEY_LINENO, KEY_FILENAME, KEY_TRACEBACK,
						   KEY_FUNCTION, KEY_OBJECT, KEY_DOMAIN };
	struct data_trace origin[ORIGIN_NR];
	struct data_snapshot dictionary;
	struct both old, new;

	random_origins(random, origin);
	dictionary = data_snapshot_with(origin, ORIGIN_NR, random_metadata);
	make_both(random, origin, old_is_sampled, &old);
	make_both(random, origin, new_is_sampled, &new);
	for (size_t i = 0; i < 4 * ARRAY_SIZE(key_types); i++) {
		struct engine_options options =
			random_options(random, key_types[i % ARRAY_SIZE(key_types)]);

		compare_answers(dictionary.snapshot, NULL, &new, &options);
		compare_answers(dictionary.snapshot, &old, &new, &options);
	}
	data_release(&dictionary);
	data_release(&old.merged);
	data_release(&new.merged);
}

Test(engine_tally, equals_one_snapshot_of_all_blocks)
{
	uint64_t random = 88172645463325252ull;

	for (int i = 0; i < ROUND_NR; i++)
		compare_round(&random, false, false);
}

Test(engine_tally, equals_one_snapshot_of_all_samples)
{
	uint64_t random = 362436069ull;

	for (int i = 0; i < ROUND_NR; i++)
		compare_round(&random, i % 3 > 0, i % 3 < 2);
}

/* Questions that a tally cannot answer, and sums that overflow. */

#define A { { "a.c", 1 } }

Test(engine_tally_edges, empty_tally_has_no_rows)
{
	struct data_snapshot empty = data_snapshot(NULL, 0, 0);
	struct tally tally = { NULL, NULL };
	struct engine_options options = {};
	struct statistics *statistics = NULL;
	struct groups *groups = NULL;

	cr_assert_eq(tally_compare(empty.snapshot, &tally, &tally, &options, &statistics, NULL), 0);
	cr_expect(statistics->statistic_nr == 0 && statistics->total.size == 0);
	statistics_free(statistics);
	cr_assert_eq(groups_make(empty.snapshot, &options, &groups, NULL), 0);
	cr_expect(groups->key_nr == 0 && groups->first[0] == 0);
	groups_free(groups);
	groups_free(NULL);
	data_release(&empty);
}

Test(engine_tally_edges, origin_without_blocks_has_no_row)
{
	const struct data_trace origins[] = { { 0, A }, { 0, { { "b.c", 1 } } } };
	struct data_snapshot dictionary = DATA_SNAPSHOT(origins);
	const struct cost cost[] = { {}, { 0, 1 } };
	struct statistics *got = NULL;

	cr_assert_eq(tally_statistics(dictionary.snapshot, &(struct tally){ cost, NULL },
				      &(struct engine_options){}, &got, NULL), 0);
	cr_assert_eq(got->statistic_nr, 1);
	cr_expect_str_eq(got->statistic[0].frame[0].filename, "b.c");
	cr_expect(!got->total_estimate && !got->statistic[0].estimate);
	statistics_free(got);
	data_release(&dictionary);
}

/* Both lines are called b.c:1. */
Test(engine_tally_edges, filters_use_the_frames_and_keys_use_the_key_frames)
{
	const struct data_trace origins[] = { { 0, A }, { 0, { { "b.c", 1 } } } };
	const struct cost cost[] = { { 10, 1 }, { 20, 1 } };
	static const uint32_t key_frame[] = { 0, 2, 2 };
	const struct tally tally = { cost, NULL };
	const struct filter filter = { .inclusive = true, .filename_pattern = "a.c" };

	for (enum key_type key_type = KEY_LINENO; key_type <= KEY_TRACEBACK; key_type++) {
		struct data_snapshot dictionary = DATA_SNAPSHOT(origins);
		struct engine_options options = { .key_type = key_type, .key_frame = key_frame };
		struct statistics *got = NULL;

		for (size_t filter_nr = 0; filter_nr < 2; filter_nr++) {
			options.select = (struct selection){ .filter = &filter, .filter_nr = filter_nr };
			cr_assert_eq(tally_statistics(dictionary.snapshot, &tally, &options, &got, NULL), 0);
			cr_assert_eq(got->statistic_nr, 1);
			cr_expect_str_eq(got->statistic[0].frame[0].filename, "b.c");
			cr_expect_eq(got->total.size, filter_nr ? 10 : 30);
			statistics_free(got);
		}
		data_release(&dictionary);
	}
}

Test(engine_tally_edges, sums_that_overflow_are_an_error)
{
	const struct data_trace origins[] = { { 0, A }, { 0, A, .domain = 1 }, { 0, { { "b.c", 1 } } } };
	const struct cost same_row_of_two[] = { { INT64_MAX, 1 }, { 1, 1 }, {} };
	const struct cost total_of_two[] = { { INT64_MAX, 1 }, {}, { 1, 1 } };
	struct data_snapshot dictionary = DATA_SNAPSHOT(origins);
	const struct cost *const costs[] = { same_row_of_two, total_of_two };

	for (size_t i = 0; i < ARRAY_SIZE(costs); i++) {
		struct statistics *got = NULL;
		struct reason why = { "" };

		cr_expect_eq(tally_statistics(dictionary.snapshot, &(struct tally){ costs[i], NULL },
					      &(struct engine_options){}, &got, &why), -ERANGE);
		cr_expect_str_eq(why.text, "the sizes add up to more than 2^63 - 1 bytes");
		cr_expect_null(got);
	}
	data_release(&dictionary);
}

Test(engine_tally_edges, questions_about_single_blocks_are_refused)
{
	static const char of_blocks[] =
		"sums of many snapshots do not tell blocks apart by size, age, thread or gap";
	static const struct {
		struct engine_options options;
		const char *why;
	} refused[] = {
		{ { .key_type = KEY_PROCESS },
		  "key type \"process\" cannot be used with sums of many snapshots" },
		{ { .key_type = KEY_SIZE_CLASS },
		  "key type \"size-class\" cannot be used with sums of many snapshots" },
		{ { .key_type = KEY_AGE }, "key type \"age\" cannot be used with sums of many snapshots" },
		{ { .key_type = KEY_THREAD },
		  "key type \"thread\" cannot be used with sums of many snapshots" },
		{ { .measure = MEASURE_ALLOCATED }, "sums of many snapshots are of live blocks: measure "
						    "\"allocated\" is not in them" },
		{ { .select.min_size = 1 }, of_blocks },
		{ { .select.has_max_size = true }, of_blocks },
		{ { .select.min_age_ns = 1 }, of_blocks },
		{ { .select.max_age_ns = 1 }, of_blocks },
		{ { .select.thread = 1 }, of_blocks },
		{ { .select.no_gap_blocks = true }, of_blocks },
		{ { .key_type = KEY_TRACEBACK, .cumulative = true },
		  "cumulative mode cannot be used with key type \"traceback\"" },
		{ { .key_type = KEY_TYPE_NR }, "no such key type: 10" },
	};
	const struct data_trace origins[] = { { 0, A } };
	struct data_snapshot dictionary = DATA_SNAPSHOT(origins);
	const struct cost cost[] = { { 5, 1 } };
	const struct tally tally = { cost, NULL };

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		const struct engine_options *options = &refused[i].options;
		struct statistics *got = NULL;
		struct groups *groups = NULL;
		struct reason why[3] = {};

		cr_expect_eq(tally_statistics(dictionary.snapshot, &tally, options, &got, &why[0]), -EINVAL);
		cr_expect_eq(tally_compare(dictionary.snapshot, &tally, &tally, options, &got, &why[1]),
			     -EINVAL);
		cr_expect_eq(groups_make(dictionary.snapshot, options, &groups, &why[2]), -EINVAL);
		for (int k = 0; k < 3; k++)
			cr_expect_str_eq(why[k].text, refused[i].why, "%zu: %s", i, why[k].text);
		cr_expect(!got && !groups);
	}
	data_release(&dictionary);
}

Test(engine_tally_edges, unknown_domain_is_an_error)
{
	const struct filter filter = { .inclusive = true, .has_domain = true, .domain_name = "none" };
	const struct engine_options options = { .select = { .filter = &filter, .filter_nr = 1 } };
	const struct data_trace origins[] = { { 0, A } };
	struct data_snapshot dictionary = DATA_SNAPSHOT(origins);
	const struct tally tally = { (const struct cost[]){ { 5, 1 } }, NULL };
	struct statistics *got = NULL;
	struct groups *groups = NULL;
	struct reason why = { "" };

	cr_expect_eq(tally_statistics(dictionary.snapshot, &tally, &options, &got, &why), -ENODATA);
	cr_expect_str_eq(why.text, "no domain of the snapshot is called none");
	cr_expect_eq(groups_make(dictionary.snapshot, &options, &groups, &why), -ENODATA);
	data_release(&dictionary);
}

/*
 * Sums of processes whose budgets took samples for a time: of a row, each process has many blocks from the time when
 * every block was recorded, and few or no samples of the others. Do the intervals of the sum hold the truth?
 */

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

/* The addition is as large as for one process, so it is little for many. */
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

/* The groups of each trace of a dictionary, beside the statistics of its sums. */

TestSuite(engine_groups, .timeout = 600);

static const struct statistic *find_row(const struct statistics *statistics, const struct statistic *key)
{
	for (size_t i = 0; i < statistics->statistic_nr; i++) {
		const struct statistic *row = &statistics->statistic[i];
		struct statistic bare = { .frame = row->frame, .nframe = row->nframe, .key = row->key };

		if (same_row(&bare, key))
			return row;
	}
	return NULL;
}

/* The sums of a tally's groups equal its statistics. Every origin takes part. */
static void compare_groups(const struct snapshot *dictionary, const struct tally *tally,
			   const struct engine_options *options)
{
	struct statistics *want = NULL;
	struct groups *groups = NULL;
	struct reason why = { "" };
	struct cost *cost;

	cr_assert_eq(tally_statistics(dictionary, tally, options, &want, &why), 0, "%s", why.text);
	cr_assert_eq(groups_make(dictionary, options, &groups, &why), 0, "%s", why.text);
	cr_assert_eq(groups->key_nr, want->statistic_nr);
	cost = calloc(groups->key_nr + 1, sizeof(*cost));
	cr_expect_eq(groups->first[0], 0);
	for (uint32_t i = 0; i < ORIGIN_NR; i++)
		for (uint32_t k = groups->first[i]; k < groups->first[i + 1]; k++) {
			cr_assert_lt(groups->group[k], groups->key_nr);
			cost[groups->group[k]].size += tally->cost[i].size;
			cost[groups->group[k]].count += tally->cost[i].count;
		}
	for (size_t i = 0; i < groups->key_nr; i++) {
		const struct statistic *row = find_row(want, &groups->key[i]);

		cr_assert(row, "%s: group %zu is no row", key_type_name(options->key_type), i);
		cr_expect(same_cost(&row->cost, &cost[i]), "%s: group %zu",
			  key_type_name(options->key_type), i);
	}
	free(cost);
	groups_free(groups);
	statistics_free(want);
}

Test(engine_groups, are_the_rows_of_the_statistics)
{
	uint64_t random = 521288629ull;

	for (int round = 0; round < ROUND_NR; round++) {
		struct data_trace origin[ORIGIN_NR];
		struct cost cost[ORIGIN_NR];
		struct tally tally = { cost, NULL };
		struct data_snapshot dictionary;

		random_origins(&random, origin);
		dictionary = data_snapshot_with(origin, ORIGIN_NR, random_metadata);
		for (int i = 0; i < ORIGIN_NR; i++)
			cost[i] = (struct cost){ random_below(&random, 1000), 1 + random_below(&random, 5) };
		for (enum key_type key_type = 0; key_type <= KEY_DOMAIN; key_type++) {
			struct engine_options options = random_options(&random, key_type);

			compare_groups(dictionary.snapshot, &tally, &options);
		}
		data_release(&dictionary);
	}
}

/* Diffs of cohorts with different numbers of processes. */

static const struct process_nr five_and_two = { .old = 5, .new = 2 };

static void expect_order(const char *what, enum sort_order order, const struct process_nr *nr,
			 const char *want)
{
	/* The comments give the means, from 5 processes to 2. */
	struct statistic rows[] = {
		{ .key = "a", .cost = { 200, 2 }, .diff = { -300, 0 } }, /* 100 to 100 */
		{ .key = "b", .cost = { 600, 2 }, .diff = { 100, 0 } },	 /* 100 to 300 */
		{ .key = "c", .cost = { 0, 0 }, .diff = { -500, 0 } },	 /* 100 to 0 */
		{ .key = "d", .cost = { 2, 1 }, .diff = { 2, 1 } },	 /* 0 to 1 */
		{ .key = "e", .cost = { 40, 4 }, .diff = { -60, 0 } },	 /* 20 to 20 */
	};
	char got[ARRAY_SIZE(rows) + 1] = "";

	statistics_sort_means(rows, ARRAY_SIZE(rows), order, nr);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		got[i] = *rows[i].key;
	cr_expect_str_eq(got, want, "%s: %s", what, got);
}

/* Rows with equal means are ordered by their sums. */
Test(engine_process_mean, orders_rows)
{
	expect_order("abs", SORT_ABS, &five_and_two, "bcdae");
	expect_order("growth", SORT_GROWTH, &five_and_two, "bdeac");
	expect_order("shrink", SORT_SHRINK, &five_and_two, "caedb");
	expect_order("as many", SORT_ABS, &(struct process_nr){ 3, 3 }, "cabed");
}

/* A byte more, in a sum that a double can't hold to the byte. */
Test(engine_process_mean, is_exact)
{
	const int64_t large = INT64_MAX - 1;
	struct statistic rows[] = {
		{ .key = "a", .cost = { large, 1 }, .diff = { large, 1 } },
		{ .key = "b", .cost = { large + 1, 1 }, .diff = { large + 1, 1 } },
	};

	statistics_sort_means(rows, 2, SORT_ABS, &(struct process_nr){ UINT32_MAX, 3 });
	cr_expect_str_eq(rows[0].key, "b");
	cr_expect_eq(process_mean_diff(6, 1, &five_and_two), 2.0);
	cr_expect_eq(process_mean_diff(large, 0, &(struct process_nr){ 7, 7 }), 0.0);
	cr_expect_eq(process_mean_diff(0, -10, &five_and_two), -2.0);
}

/* The walk missed the caller of a wrapper: such a wrapper is not skipped. */

static uint32_t add_frame(struct snapshot_builder *builder, const char *filename,
			  const char *function, uint32_t flags)
{
	struct snap_frame frame = { .lineno = flags ? 0 : 1, .flags = flags };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, filename, &frame.filename), 0);
	cr_assert_eq(snapshot_builder__string(builder, function, &frame.function), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	return id;
}

/* operator new ← [callers without frame pointer]? ← outer */
static struct snapshot *make(struct snapshot_builder *builder, bool skipped, void **ret_bytes)
{
	struct snap_trace trace = { .size = 8 };
	uint32_t frame[3], nr = 0;
	size_t len;

	frame[nr++] = add_frame(builder, "new.cc", "operator new(unsigned long)", 0);
	if (skipped)
		frame[nr++] = add_frame(builder, "<unknown>", "[…]", SNAP_FRAME_SKIPPED);
	frame[nr++] = add_frame(builder, "outer.cc", "outer()", 0);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, nr, nr, 0, &trace.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__serialize(builder, ret_bytes, &len), 0);
	return snapshot__open_memory(*ret_bytes, len, NULL);
}

static void expect_top(bool skipped, const char *filename)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct engine_options options = {};
	struct statistics *statistics;
	void *bytes;
	struct snapshot *snapshot = make(builder, skipped, &bytes);

	cr_assert_not_null(snapshot);
	cr_assert_eq(snapshot_statistics(snapshot, &options, &statistics, NULL), 0);
	cr_assert_eq(statistics->statistic_nr, 1);
	cr_expect_str_eq(statistics->statistic[0].frame[0].filename, filename);
	statistics_free(statistics);
	snapshot__close(snapshot);
	snapshot_builder__free(builder);
	free(bytes);
}

Test(engine_skipped, wrapper_with_a_known_caller_is_left_out)
{
	expect_top(false, "outer.cc");
}

Test(engine_skipped, wrapper_without_a_known_caller_is_kept)
{
	expect_top(true, "new.cc");
}
