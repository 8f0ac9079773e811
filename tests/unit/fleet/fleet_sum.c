// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Sums of a small fleet, beside one snapshot that holds all its blocks. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "engine.h"
#include "fleet/catalogue.h"
#include "fleet/catalogue_private.h"
#include "fleet/index.h"
#include "fleet/parallel_scan.h"
#include "fleet/selection.h"
#include "fleet/sum.h"
#include "fleet/dictionary.h"
#include "snapshot.h"

/* A small fleet on disk, indexed: host0 … host5; the odd hosts sample. */

#define HOSTS 6
#define PROCESSES 4 /* of each; pids from 100 */
#define TIMES 3	    /* of each, a minute apart */
#define SMALL_RATE 1000 /* of samples, times 1 + the number of the process; only hosts of odd numbers have samples */
#define SNAPSHOTS (HOSTS * PROCESSES * TIMES)
#define BLOCKS 40

/* A block at line site + 1 of one file. */
struct small_block {
	uint32_t site, domain;
	uint64_t size;
	double weight;
};

/* All blocks of one snapshot. */
struct small_contents {
	struct small_block block[BLOCKS];
	size_t nr;
	bool is_sampled;
};

#define SITES 50

static char directory[] = "/tmp/fleet_walk.XXXXXX";
static struct catalogue *small_catalogue;
static struct fleet_facts small_facts;
static struct cohort small_everything;

static struct small_contents small_contents[HOSTS][PROCESSES][TIMES];

static uint32_t below(uint64_t *random, uint32_t end)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 33) % end;
}

/* Some hosts sample. The weights are thirds: the sum of their squares depends on the order of addition. */
static void fill(uint64_t *random, struct small_contents *to, bool is_sampled)
{
	to->is_sampled = is_sampled;
	to->nr = below(random, BLOCKS);
	for (size_t i = 0; i < to->nr; i++)
		to->block[i] = (struct small_block){
			.site = below(random, SITES),
			.domain = below(random, 2),
			.size = below(random, 100000),
			.weight = is_sampled ? 1 + below(random, 9) / 3.0 : 1,
		};
}

static void add_block(struct snapshot_builder *builder, const struct small_block *block)
{
	struct snap_trace trace = { .size = block->size, .domain = block->domain,
				    .weight = block->weight };
	struct snap_frame frame = { .lineno = block->site + 1 };
	uint32_t id;

	cr_assert(!snapshot_builder__string(builder, "site.c", &frame.filename) &&
		  !snapshot_builder__frame(builder, &frame, &id) &&
		  !snapshot_builder__traceback(builder, &id, 1, 1, 0, &trace.traceback) &&
		  !snapshot_builder__trace(builder, &trace));
}

/* One snapshot of the blocks of several; metadata: pairs up to a NULL, or NULL. */
static struct snapshot *small_build(const struct small_contents *from, size_t nr, bool is_sampled,
			     const char *const *metadata)
{
	struct snapshot_builder *builder =
		snapshot_builder__new(SNAP_WITH_DOMAIN | (is_sampled ? SNAP_WITH_WEIGHT : 0));
	struct snapshot *snapshot;

	for (size_t i = 0; i < nr; i++)
		for (size_t k = 0; k < from[i].nr; k++)
			add_block(builder, &from[i].block[k]);
	for (; metadata && *metadata; metadata += 2)
		cr_assert_eq(snapshot_builder__metadata(builder, metadata[0], metadata[1]), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

/*
 * Another snapshot, and then the index of all. Files are named so that the last ones come first in the order of paths,
 * which numbers the origins.
 */
static void small_save(int host, int process, int time, const struct small_contents *from)
{
	char name[16], pid[16], wall_ns[32], most[16], path[64];
	const char *const metadata[] = {
		"host", name, "pid", pid, "boot_id", name, "start_time_ticks", "1", "comm", "prog",
		"wall_ns", wall_ns, "sample_bytes_most", most, NULL,
	};
	struct snapshot *snapshot;

	snprintf(name, sizeof(name), "host%d", host);
	snprintf(pid, sizeof(pid), "%d", 100 + process);
	snprintf(most, sizeof(most), "%d", SMALL_RATE * (1 + process));
	snprintf(wall_ns, sizeof(wall_ns), "%llu",
		 1795262400000000000ull + time * 60000000000ull + process * 1000 + host);
	snprintf(path, sizeof(path), "d/%d-%d-%d.snap", HOSTS - host, process, TIMES - time);
	snapshot = small_build(from, 1, from->is_sampled, metadata);
	cr_assert_eq(snapshot__save(snapshot, path, NULL, NULL), 0);
	snapshot__close(snapshot);
}

static void refuse(void *what, enum index_problem problem, const char *path, const char *line)
{
	(void)what;
	cr_assert_fail("%s: problem %d: %s", path, problem, line);
}

static void read_facts(void)
{
	struct reason why = { "" };

	cohort_release(&small_everything);
	fleet_facts_release(&small_facts);
	cr_assert_eq(catalogue__facts(small_catalogue, &small_facts, &why), 0, "%s", why.text);
	cr_assert_eq(cohort_choose(&small_facts, NULL, 0, COHORT_ALL, &small_everything), 0);
}

/* Changes the catalogue, and reads small_facts and the rest again. */
static void small_sql(const char *sql)
{
	struct reason why = { "" };

	cr_assert_eq(sql_run(small_catalogue, sql, &why), 0, "%s", why.text);
	read_facts();
}

static void small_index(uint64_t new_ones)
{
	const struct index_events events = { .problem = refuse };
	const char *dir = "d";
	struct index_sum sum;
	struct reason why = { "" };

	cr_assert_eq(fleet_index(small_catalogue, &dir, 1, &events, &sum, &why), 0, "%s", why.text);
	cr_assert_eq(sum.snapshots, new_ones);
	read_facts();
}

/* For a suite's init and fini. */
static void small_make(void)
{
	uint64_t random = 88172645463325252ull;
	struct reason why = { "" };

	cr_assert(mkdtemp(directory) && !chdir(directory) && !mkdir("d", 0700));
	for (int i = 0; i < SNAPSHOTS; i++) {
		int host = i / PROCESSES / TIMES, process = i / TIMES % PROCESSES, time = i % TIMES;

		fill(&random, &small_contents[host][process][time], host % 2);
		small_save(host, process, time, &small_contents[host][process][time]);
	}
	cr_assert_eq(catalogue__open("fleet.db", CATALOGUE_WRITE, &small_catalogue, &why), 0, "%s",
		     why.text);
	small_index(SNAPSHOTS);
}

static void small_remove(void)
{
	char command[64];

	cohort_release(&small_everything);
	fleet_facts_release(&small_facts);
	catalogue__close(small_catalogue);
	snprintf(command, sizeof(command), "rm -rf %s", directory);
	if (chdir("/") || system(command))
		abort();
}

static struct cohort small_cohort(const char *text, enum cohort_times times)
{
	struct fleet_selection selection;
	const struct fleet_selection *const only[] = { &selection };
	struct cohort cohort;

	cr_assert_eq(fleet_selection_parse(text, 0, &selection, NULL), 0);
	cr_assert_eq(cohort_choose(&small_facts, only, 1, times, &cohort), 0);
	fleet_selection_release(&selection);
	return cohort;
}

/* For the rest of the test. */
static void small_use_one_processor(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* ---- the tests ---- */

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

	cr_assert_eq(dictionary_read_catalogue(small_catalogue, &(struct dictionary_options){}, &dictionary, &why), 0);
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

/* ---- fleet walk ---- */

TestSuite(fleet_walk, .init = small_make, .fini = small_remove, .timeout = 600);

/* ---- walks ------------------------------------------------------------------------------------- */

/* The snapshots that one lane was given, in order; NULL ends a unit. */
struct lane {
	const struct fleet_snapshot *snapshot[2 * SNAPSHOTS];
	size_t nr;
};

static struct lane lanes[WALK_LANES];

static int note(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		const struct fleet_rows *rows, struct reason *why)
{
	int64_t size = 0, count = 0;

	(void)what, (void)why;
	for (size_t i = 0; i < rows->nr; i++) {
		size += rows->row[i].cost.size;
		count += rows->row[i].cost.count;
	}
	if (rows->nr != snapshot->row_nr || !rows->spread != !(snapshot->is_sampled))
		return -EILSEQ;
	if (!snapshot->is_sampled && (size != snapshot->size || count != snapshot->count))
		return -EILSEQ;
	lanes[lane].snapshot[lanes[lane].nr++] = snapshot;
	return 0;
}

static int note_end(void *what, unsigned int lane, struct reason *why)
{
	(void)what, (void)why;
	lanes[lane].snapshot[lanes[lane].nr++] = NULL;
	return 0;
}

static struct walk everywhere(enum walk_unit unit)
{
	return (struct walk){
		.catalogue = small_catalogue, .cohort = &small_everything,
		.origin_nr = small_facts.origin_nr,
		.unit = unit, .visit = note, .unit_end = note_end,
	};
}

static void walk_all(enum walk_unit unit)
{
	const struct walk walk = everywhere(unit);
	struct reason why = { "" };

	memset(lanes, 0, sizeof(lanes));
	cr_assert_eq(fleet_walk(&walk, &why), 0, "%s", why.text);
}

static uint32_t unit_of(enum walk_unit unit, const struct fleet_snapshot *snapshot)
{
	return unit == WALK_BY_HOST ? snapshot->host_nr : snapshot->process;
}

/* Each snapshot once; of a unit all in one lane, by process and then by time, as the facts are, and then its end. */
static void expect_units(enum walk_unit unit, uint32_t unit_nr, int lanes_in_use)
{
	bool seen[SNAPSHOTS] = {}, has_ended[SNAPSHOTS] = {};
	size_t visited = 0, ended = 0;

	for (int lane = 0; lane < WALK_LANES; lane++) {
		const struct fleet_snapshot *last = NULL;

		lanes_in_use -= lanes[lane].nr > 0;
		for (size_t i = 0; i < lanes[lane].nr; i++) {
			const struct fleet_snapshot *snapshot = lanes[lane].snapshot[i];

			if (!snapshot) {
				cr_assert(last);
				has_ended[unit_of(unit, last)] = true;
				ended++;
			} else {
				cr_expect(!has_ended[unit_of(unit, snapshot)]);
				cr_expect(!last || (unit_of(unit, last) == unit_of(unit, snapshot) &&
						    last < snapshot));
				cr_expect(!seen[snapshot - small_facts.snapshot]);
				seen[snapshot - small_facts.snapshot] = true;
				visited++;
			}
			last = snapshot;
		}
		cr_expect_null(last, "the last unit of a lane ends");
	}
	cr_expect_eq(visited, SNAPSHOTS);
	cr_expect_eq(ended, unit_nr);
	cr_expect_eq(lanes_in_use, 0, "%d", lanes_in_use);
}

Test(fleet_walk, visits_each_process_or_host_as_one_unit)
{
	walk_all(WALK_BY_PROCESS);
	expect_units(WALK_BY_PROCESS, HOSTS * PROCESSES, WALK_LANES);
	walk_all(WALK_BY_HOST);
	expect_units(WALK_BY_HOST, HOSTS, HOSTS);
}

Test(fleet_walk, has_the_same_lanes_on_one_processor)
{
	static struct lane before[WALK_LANES];

	walk_all(WALK_BY_PROCESS);
	memcpy(before, lanes, sizeof(lanes));
	small_use_one_processor();
	walk_all(WALK_BY_PROCESS);
	cr_expect(!memcmp(before, lanes, sizeof(lanes)));
}

Test(fleet_walk, of_an_empty_cohort_succeeds)
{
	const struct cohort none = {};
	struct walk walk = everywhere(WALK_BY_HOST);

	walk.cohort = &none;
	walk.unit_end = NULL;
	cr_expect_eq(fleet_walk(&walk, NULL), 0);
}

/* ---- what goes wrong --------------------------------------------------------------------------- */

/* Every process after the third fails, each with its own line. */
static int fail_late(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		     const struct fleet_rows *rows, struct reason *why)
{
	(void)what, (void)lane, (void)rows;
	if (snapshot->process < 3)
		return 0;
	snprintf(why->text, sizeof(why->text), "process %u", snapshot->process);
	return -(int)snapshot->process;
}

Test(fleet_walk, returns_the_first_error_in_order)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);

	walk.visit = fail_late;
	walk.unit_end = NULL;
	for (int i = 0; i < 100; i++) {
		struct reason why = { "" };

		cr_assert_eq(fleet_walk(&walk, &why), -3, "%s", why.text);
		cr_assert_str_eq(why.text, "process 3");
	}
	cr_expect_eq(fleet_walk(&walk, NULL), -3);
}

/* Every lane fails; the delay makes the first or the last lane fail first. */
static int fail_by_lane(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
			const struct fleet_rows *rows, struct reason *why)
{
	const bool *forward = what;

	(void)snapshot, (void)rows, (void)why;
	usleep(5000 * (*forward ? lane : WALK_LANES - lane));
	return -1 - (int)lane;
}

Test(fleet_walk, returns_the_first_error_in_order_whichever_lane_fails_first)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);

	walk.visit = fail_by_lane;
	walk.what = &(bool){ false };
	cr_expect_eq(fleet_walk(&walk, NULL), -1);
	walk.what = &(bool){ true };
	cr_expect_eq(fleet_walk(&walk, NULL), -1);
}

static int fail_fifth(void *what, unsigned int lane, const struct fleet_snapshot *snapshot,
		      const struct fleet_rows *rows, struct reason *why)
{
	unsigned int *visited = what;

	(void)lane, (void)snapshot, (void)rows, (void)why;
	return ++*visited < 5 ? 0 : -EIO;
}

Test(fleet_walk, stops_at_an_error)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);
	unsigned int visited = 0;

	walk.visit = fail_fifth;
	walk.unit_end = NULL;
	walk.what = &visited;
	small_use_one_processor();
	cr_expect_eq(fleet_walk(&walk, NULL), -EIO);
	cr_expect_eq(visited, 5);
}

static int fail_end(void *what, unsigned int lane, struct reason *why)
{
	(void)what, (void)lane, (void)why;
	return -ENOMEM;
}

Test(fleet_walk, returns_errors_of_unit_ends)
{
	struct walk walk = everywhere(WALK_BY_HOST);
	struct reason why = { "" };

	walk.unit_end = fail_end;
	cr_expect_eq(fleet_walk(&walk, &why), -ENOMEM);
	cr_expect_str_eq(why.text, "out of memory");
}

Test(fleet_walk, refuses_a_missing_snapshot)
{
	struct walk walk = everywhere(WALK_BY_PROCESS);
	struct reason why = { "" };

	small_facts.snapshot[7].snapshot_id++;
	cr_expect_eq(fleet_walk(&walk, &why), -EBADMSG);
	cr_expect(*why.text);
}
