// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The groups of each trace of a dictionary, beside the statistics of its sums. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/reason.h"
#include "engine/presummed.h"
#include "engine_random.h"
#include "snapshot.h"

TestSuite(engine_groups, .timeout = 600);

#define ROUND_NR 30

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
