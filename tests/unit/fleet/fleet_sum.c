// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sums of a small fleet, beside one snapshot that holds all its blocks. */
#include "fleet/sum.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "fleet/symbol_tables.h"
#include "fleet_small.h"
#include "snapshot.h"

TestSuite(fleet_sum, .init = small_make, .fini = small_remove, .timeout = 600);

static struct fleet_sum sum_of(const struct cohort *cohort)
{
	struct fleet_sum sum;
	struct reason why = { "" };

	cr_assert_eq(fleet_sum_make(small_catalogue, cohort, small_facts.origin_nr, &sum, &why), 0, "%s",
		     why.text);
	return sum;
}

Test(fleet_sum, is_the_same_on_one_processor)
{
	struct fleet_sum two = sum_of(&small_everything), one;
	size_t nr = small_facts.origin_nr;

	small_use_one_processor();
	one = sum_of(&small_everything);
	cr_assert(one.sums && two.sums && one.origin_nr == nr);
	cr_expect(!memcmp(one.cost, two.cost, nr * sizeof(*one.cost)));
	cr_expect(!memcmp(one.sums, two.sums, nr * sizeof(*one.sums)));
	fleet_sum_release(&one);
	fleet_sum_release(&two);
}

/* The rows of the answer, of which the key is a line of one file. */
static void expect_same(const struct statistics *got, const struct statistics *want)
{
	cr_assert_eq(got->statistic_nr, want->statistic_nr);
	cr_expect(got->total.size == want->total.size && got->total.count == want->total.count);
	cr_expect(!got->total_estimate == !want->total_estimate);
	for (size_t i = 0; i < want->statistic_nr; i++) {
		const struct statistic *a = &got->statistic[i], *b = &want->statistic[i];

		cr_expect(a->frame->lineno == b->frame->lineno && a->cost.size == b->cost.size &&
			  a->cost.count == b->cost.count, "row %zu: %u: %jd, not %u: %jd", i,
			  a->frame->lineno, (intmax_t)a->cost.size, b->frame->lineno,
			  (intmax_t)b->cost.size);
		cr_expect(!a->estimate || (a->estimate->samples == b->estimate->samples &&
					   llabs(a->estimate->size.high - b->estimate->size.high) < 2));
	}
}

static void expect_sum(const struct cohort *cohort, const struct snapshot *merged)
{
	struct fleet_sum sum = sum_of(cohort);
	const struct tally tally = { sum.cost, sum.sums, sum.unseen_bytes };
	struct statistics *got = NULL, *want = NULL;
	struct dictionary dictionary = {};
	struct reason why = { "" };

	cr_assert_eq(symbol_tables_read(small_catalogue, &(struct dictionary_options){}, &dictionary, &why), 0);
	cr_assert_eq(snapshot__tables(dictionary.snapshot)->trace_nr, small_facts.origin_nr);
	cr_assert_eq(tally_statistics(dictionary.snapshot, &tally, &(struct engine_options){}, &got, &why), 0);
	cr_assert_eq(snapshot_statistics(merged, &(struct engine_options){}, &want, &why), 0);
	expect_same(got, want);
	statistics_free(got);
	statistics_free(want);
	dictionary_release(&dictionary);
	fleet_sum_release(&sum);
}

Test(fleet_sum, equals_the_sum_of_all_blocks)
{
	struct small_contents latest[HOSTS * PROCESSES];
	struct cohort cohort = small_cohort("", COHORT_LATEST);
	struct snapshot *merged;
	char most[16];

	for (size_t i = 0; i < ARRAY_SIZE(latest); i++)
		latest[i] = small_contents[i / PROCESSES][i % PROCESSES][TIMES - 1];
	snprintf(most, sizeof(most), "%d", SMALL_RATE * PROCESSES);
	merged = small_build(latest, ARRAY_SIZE(latest), true, (const char *const[]){ "sample_bytes_most", most, NULL });
	cr_assert_eq(cohort.snapshot_nr, ARRAY_SIZE(latest));
	expect_sum(&cohort, merged);
	cohort_release(&cohort);
	snapshot__close(merged);
}

Test(fleet_sum, of_exact_hosts_is_exact)
{
	struct cohort cohort = small_cohort("host=host2", COHORT_ALL);
	struct snapshot *merged = small_build(small_contents[2][0], PROCESSES * TIMES, false, NULL);
	struct fleet_sum sum = sum_of(&cohort);

	cr_assert_eq(cohort.snapshot_nr, PROCESSES * TIMES);
	cr_expect_null(sum.sums);
	expect_sum(&cohort, merged);
	fleet_sum_release(&sum);
	cohort_release(&cohort);
	snapshot__close(merged);
}

/* The process with the coarsest rate counts; its snapshots lack the same blocks. */
Test(fleet_sum, has_the_coarsest_rate_of_a_budget)
{
	static const struct {
		const char *cohort;
		enum cohort_times times;
		double unseen_bytes;
	} cases[] = {
		{ "host=host1", COHORT_LATEST, SMALL_RATE * PROCESSES },
		{ "host=host1", COHORT_ALL, SMALL_RATE * PROCESSES * TIMES },
		{ "host=host1,pid=100", COHORT_LATEST, SMALL_RATE },
		{ "host=host2", COHORT_ALL, 0 }, /* it has every block */
		{ "host=host*", COHORT_LATEST, SMALL_RATE * PROCESSES },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct cohort cohort = small_cohort(cases[i].cohort, cases[i].times);
		struct fleet_sum sum = sum_of(&cohort);

		cr_expect_eq(sum.unseen_bytes, cases[i].unseen_bytes, "%s: %f", cases[i].cohort, sum.unseen_bytes);
		fleet_sum_release(&sum);
		cohort_release(&cohort);
	}
}

Test(fleet_sum, of_an_empty_cohort_is_zero)
{
	struct fleet_sum sum = sum_of(&(struct cohort){});

	for (uint32_t i = 0; i < small_facts.origin_nr; i++)
		cr_expect(!sum.cost[i].size && !sum.cost[i].count);
	cr_expect_null(sum.sums);
	fleet_sum_release(&sum);
}

/* Two times 2^62 bytes are too much, be they of one process, hence lane, or of two. */
static void make_giants(void)
{
	const struct small_contents giant = { { { 0, 0, 1ull << 62, 1 } }, 1, false };

	for (int i = 0; i < 4; i++)
		small_save(HOSTS, i / 2, i % 2, &giant);
	small_index(4);
}

Test(fleet_sum, that_overflows_is_an_error)
{
	static const char *const texts[] = { "host=host6,pid=100", "host=host6,size>0" };
	static const enum cohort_times times[] = { COHORT_ALL, COHORT_LATEST };
	struct fleet_sum sum;
	char want[512];

	make_giants();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cohort cohort = small_cohort(texts[i], times[i]);
		struct reason why = { "" };

		cr_assert_eq(cohort.snapshot_nr, 2);
		cr_expect_eq(fleet_sum_make(small_catalogue, &cohort, small_facts.origin_nr, &sum, &why),
			     -ERANGE);
		snprintf(want, sizeof(want), "the sizes add up to more than 2^63 - 1 bytes; the largest snapshot is one of "
			 "host6: --where 'path!=%s' leaves it out", cohort.snapshot[0]->path);
		cr_expect_str_eq(why.text, want);
		cohort_release(&cohort);
	}
}

/* The same blocks at two times miss the same: twice the deviation. Of another process, by the root of two. */
Test(fleet_sum, adds_up_the_deviations_of_each_process)
{
	static const char *const texts[] = { "host=host6,pid=100", "host=host6,pid!=102", "host=host6,pid!=101" };
	static const double variances[] = { 4, 5, 8 }, covariances[] = { 8, 9, 16 };
	const struct small_contents sampled = { { { 1, 0, 1000, 3 } }, 1, true };
	const double variance = 1000.0 * 1000 * 3 * 2, covariance = 1000.0 * 1000 * 1000 * 3 * 4;

	for (int i = 0; i < 2; i++)
		small_save(HOSTS, 0, i, &sampled);
	small_save(HOSTS, 1, 0, &sampled);
	for (int i = 0; i < 2; i++)
		small_save(HOSTS, 2, i, &sampled);
	small_index(5);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct cohort cohort = small_cohort(texts[i], COHORT_ALL);
		struct fleet_sum sum = sum_of(&cohort);
		struct moments all = {};

		for (uint32_t k = 0; k < sum.origin_nr; k++) {
			all.beyond += sum.sums[k].all.size.beyond;
			all.variance += sum.sums[k].all.size.variance;
			all.covariance += sum.sums[k].all.size.covariance;
		}
		cr_expect_float_eq(all.beyond, 2000.0 * cohort.snapshot_nr, 1e-6, "%s: %f", texts[i], all.beyond);
		cr_expect_float_eq(all.variance / variance, variances[i], 1e-9, "%s: %f", texts[i],
				   all.variance / variance);
		cr_expect_float_eq(all.covariance / covariance, covariances[i], 1e-9, "%s: %f", texts[i],
				   all.covariance / covariance);
		fleet_sum_release(&sum);
		cohort_release(&cohort);
	}
}

/* A catalogue was changed: is_sampled disagrees with the rows. */
Test(fleet_sum, refuses_rows_that_do_not_match_is_sampled)
{
	static const char *const harms[] = {
		"UPDATE snapshot SET is_sampled = 0", "UPDATE snapshot SET is_sampled = 1",
	};
	struct fleet_sum sum;

	for (size_t i = 0; i < ARRAY_SIZE(harms); i++) {
		struct reason why = { "" };

		small_sql(harms[i]);
		cr_expect_eq(fleet_sum_make(small_catalogue, &small_everything, small_facts.origin_nr, &sum, &why),
			     -EBADMSG);
		cr_expect(strstr(why.text, "the catalogue is damaged: a snapshot and its rows differ"), "%s", why.text);
	}
}

/* An index that has fewer origins than the rows refer to: they are never used. */
Test(fleet_sum, refuses_rows_with_unknown_origins)
{
	struct fleet_sum sum;
	struct reason why = { "" };

	cr_expect_eq(fleet_sum_make(small_catalogue, &small_everything, small_facts.origin_nr / 2,
				    &sum, &why), -EBADMSG);
	cr_expect(*why.text);
}
