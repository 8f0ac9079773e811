// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sums of many snapshots, asked beside one snapshot that holds all their blocks: every answer must be
 * the same. Weights are binary fractions, so that no sum of doubles is rounded.
 */
#include "engine/presummed.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine_random.h"

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
