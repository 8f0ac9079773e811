// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Do the engine's 95 % intervals hold the truth in 95 of 100 recordings? A program with known answers is
 * sampled RUNS times; of each run two snapshots are made, and of each place in them with 30 samples or
 * more it is counted whether the interval holds what there is.
 */
#include "target.h"
#include "engine.h"
#include "snapshot.h"
#include <bpf/bpf_helpers.h>
#include <math.h>

#define RUNS 1000
#define SAMPLE_BYTES 1000
#define SAMPLES_LEAST 30
#define LOW 0.93
#define HIGH 0.97

/* A place that allocates: `first` blocks, of which `freed` are gone when `more` come. */
static const struct place {
	int first, freed, more;
	__u64 size, step;
} places[] = {
	{ 1600, 500, 900, 40, 0 },
	{ 700, 350, 600, 100, 0 },
	{ 200, 60, 100, 100, 8 }, /* 100 to 1692 */
	{ 150, 40, 80, 700, 0 },
	{ 300, 100, 100, 250, 1 },
};
#define PLACES (sizeof(places) / sizeof(*places))

struct truth {
	__u64 size, count;
};

enum asked { SIZE, COUNT, SIZE_DIFF, COUNT_DIFF, ASKED_NR };
static const char *const asked_name[] = { "size", "count", "size_diff", "count_diff" };

static struct {
	int held, nr;
} intervals[ASKED_NR];

static __u64 address_of(unsigned int place, int i)
{
	return 0x100000 * (place + 1) + 0x40 * i;
}

/* A budget changes the rate every few blocks, by what was sampled until then. */
static void change_rate(int i)
{
	if (chosen_blocks.has_budget && i % 20 == 0)
		rate_is(process, (book_of(process)->counter[COUNTER_sampled_blocks] / 10 + i / 20) % SAMPLE_RATES);
}

/* ---- a sampler in the process, whose mean distance follows what it has sampled so far ---- */

#define TELLING_SAMPLES 4096

static struct {
	bool is_used;
	__u64 distance, left, samples;
	bool is_live[PLACES][TELLING_SAMPLES]; /* the sampled blocks */
} telling;

static double uniform(void)
{
	return (bpf_get_prandom_u32() + 0.5) / 4294967296.0;
}

static void tell_malloc(__u64 size, unsigned int place, int i)
{
	static const __u64 distances[] = { SAMPLE_BYTES / 2, SAMPLE_BYTES, 2 * SAMPLE_BYTES };
	double weight;
	bool is_sample;

	if (i % 20 == 0)
		telling.distance = distances[(telling.samples / 10 + i / 20) % 3];
	is_sample = uniform() < -expm1(-(double)size / telling.distance);
	if (!is_sample)
		return;
	telling.samples++;
	telling.is_live[place][i] = true;
	weight = size / -expm1(-(double)size / telling.distance);
	user_sample(address_of(place, i), size, weight + uniform());
}

static void tell_free(unsigned int place, int i)
{
	if (telling.is_live[place][i])
		user_sample_free(address_of(place, i));
	telling.is_live[place][i] = false;
}

static void allocate(unsigned int place, int from, int to, struct truth *truth)
{
	stack_is(0x400000 + place * 0x1000, 0x500000);
	for (int i = from; i < to; i++) {
		__u64 size = places[place].size + i * places[place].step;

		change_rate(i);
		if (telling.is_used)
			tell_malloc(size, place, i);
		else
			user_malloc(size, address_of(place, i));
		truth->size += size;
		truth->count++;
	}
}

static void release(unsigned int place, int from, int to, struct truth *truth)
{
	for (int i = from; i < to; i++) {
		if (telling.is_used)
			tell_free(place, i);
		else
			user_free(address_of(place, i));
		truth->size -= places[place].size + i * places[place].step;
		truth->count--;
	}
}

/* ---- snapshots as the collector makes them ---- */

static const char *const identity[][2] = {
	{ "pid", "100" }, { "start_time_ticks", "1" }, { "boot_id", "1" }, { "sample_bytes", "1000" },
};

/* A recording with a budget or with a changing distance has the coarsest of its rates. */
static const char *const of_budget[][2] = {
	{ "sample_bytes_most", "3000" }, { "recording_start_monotonic_ns", "1" },
};

static bool has_rates(void)
{
	return chosen_blocks.has_budget || telling.is_used;
}

static void add_place(struct snapshot_builder *builder, unsigned int place, __u32 *ret_traceback)
{
	struct snap_frame frame = { .lineno = place + 1 };
	__u32 id;

	cr_assert_eq(snapshot_builder__string(builder, "p.c", &frame.filename), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, ret_traceback), 0);
}

static void add_block(struct snapshot_builder *builder, const struct block_key *key,
		      const struct block *block, const __u32 *traceback_of)
{
	const struct snap_trace trace = {
		.size = block->size,
		.birth_ns = block->birth_ns,
		.address = key->address,
		.traceback = traceback_of[key->address / 0x100000 - 1],
		.thread = block->thread,
		.weight = block_weight(key, block),
	};

	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
}

/* Grows from one snapshot to the next. */
static const char *thinned_ns_text(void)
{
	static char text[16];
	static int nr;

	snprintf(text, sizeof(text), "%d", ++nr);
	return text;
}

static struct snapshot *take_snapshot(void)
{
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_WEIGHT);
	struct snapshot *snapshot;
	struct fake_walk walk = {};
	__u32 traceback[PLACES];

	for (unsigned int i = 0; i < sizeof(identity) / sizeof(*identity); i++)
		cr_assert_eq(snapshot_builder__metadata(builder, identity[i][0], identity[i][1]), 0);
	for (unsigned int i = 0; i < sizeof(of_budget) / sizeof(*of_budget) && has_rates(); i++)
		cr_assert_eq(snapshot_builder__metadata(builder, of_budget[i][0], of_budget[i][1]), 0);
	cr_assert_eq(snapshot_builder__metadata(builder, "thinned_ns", thinned_ns_text()), 0);
	for (unsigned int place = 0; place < PLACES; place++)
		add_place(builder, place, &traceback[place]);
	while (fake_map_walk(&blocks, &walk))
		add_block(builder, walk.key, walk.value, traceback);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

/* ---- what they say ---- */

static void note(enum asked asked, const struct interval *interval, __s64 truth)
{
	intervals[asked].nr++;
	intervals[asked].held += interval->low <= truth && truth <= interval->high;
}

/* A difference rests on the samples of blocks that only one side has; blocks of both sides do not count. */
static bool says_enough(const struct statistic *row, bool is_diff)
{
	const struct estimate *estimate = row->estimate;

	return estimate->samples >= SAMPLES_LEAST &&
	       (!is_diff || estimate->old_samples >= SAMPLES_LEAST);
}

static void compare(const struct snapshot *old, const struct snapshot *new,
		    const struct truth *old_truth, const struct truth *truth)
{
	struct statistics *statistics;

	cr_assert_eq(old ? snapshot_compare(old, new, &(struct engine_options){}, &statistics, NULL) :
			   snapshot_statistics(new, &(struct engine_options){}, &statistics, NULL), 0);
	for (size_t i = 0; i < statistics->statistic_nr; i++) {
		const struct statistic *row = &statistics->statistic[i];
		unsigned int place = row->frame->lineno - 1;

		cr_assert(row->estimate && place < PLACES);
		if (!says_enough(row, old))
			continue;
		if (old) {
			note(SIZE_DIFF, &row->estimate->size_diff,
			     truth[place].size - old_truth[place].size);
			if (row->estimate->has_count_diff)
				note(COUNT_DIFF, &row->estimate->count_diff,
				     truth[place].count - old_truth[place].count);
		} else {
			note(SIZE, &row->estimate->size, truth[place].size);
			if (row->estimate->has_count)
				note(COUNT, &row->estimate->count, truth[place].count);
		}
	}
	statistics_free(statistics);
}

static void run_once(void)
{
	struct truth truth[PLACES] = {}, before[PLACES];
	struct snapshot *old, *new;

	for (unsigned int i = 0; i < PLACES; i++)
		allocate(i, 0, places[i].first, &truth[i]);
	old = take_snapshot();
	memcpy(before, truth, sizeof(before));
	for (unsigned int i = 0; i < PLACES; i++) {
		release(i, 0, places[i].freed, &truth[i]);
		allocate(i, places[i].first, places[i].first + places[i].more, &truth[i]);
	}
	new = take_snapshot();
	compare(NULL, old, NULL, before);
	compare(old, new, before, truth);
	snapshot__close(old);
	snapshot__close(new);
	for (unsigned int i = 0; i < PLACES; i++)
		release(i, places[i].freed, places[i].first + places[i].more, &truth[i]);
}

static void expect_intervals_hold(void)
{
	fake_map_resize(&blocks, 10000);
	fake.random = 95;
	for (int i = 0; i < RUNS; i++)
		run_once();
	for (int i = 0; i < ASKED_NR; i++) {
		double share = (double)intervals[i].held / intervals[i].nr;

		cr_expect(intervals[i].nr >= 2 * RUNS, "only %d intervals of %s", intervals[i].nr,
			  asked_name[i]);
		cr_expect(share >= LOW && (share <= HIGH || has_rates()),
			  "the interval of %s holds the truth in %.4f of %d", asked_name[i], share, intervals[i].nr);
	}
}

ACCOUNT_TEST(estimates, have_intervals_that_contain_the_truth_in_95_of_100_runs, .timeout = 600)
{
	choose_blocks((struct choice){ .sample_bytes = SAMPLE_BYTES });
	expect_intervals_hold();
}

ACCOUNT_TEST(estimates, have_intervals_that_contain_the_truth_when_the_rate_changes, .timeout = 600)
{
	choose_rates((const __u64[SAMPLE_RATES]){ 0, SAMPLE_BYTES / 4, SAMPLE_BYTES, 3 * SAMPLE_BYTES });
	expect_intervals_hold();
}

ACCOUNT_TEST(estimates, have_intervals_that_contain_the_truth_when_the_process_tells_its_samples, .timeout = 600)
{
	telling.is_used = true;
	expect_intervals_hold();
}
