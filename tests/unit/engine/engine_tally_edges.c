// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Questions that a tally cannot answer, and sums that overflow. */
#include <criterion/criterion.h>
#include <errno.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/presummed.h"
#include "engine_data.h"

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
