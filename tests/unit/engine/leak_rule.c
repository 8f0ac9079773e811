// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "engine/leak_judge.h"
#include "engine/leak_report.h"
#include "engine/leak_runtime.h"
#include "engine/leak_tally.h"
#include "snapshot.h"

/* The rule for leaks, by births and frees made by hand: each verdict, and each threshold hit exactly and missed by one. */

#define SEC 1000000000ull
#define BLOCKS 2048

/* 60 s, 12 snapshots every 5 s. */
static struct leak_window window;
static uint64_t snapshot_ns[12];
static struct leak_block block[BLOCKS];
static struct leak_history history;
static struct leak_evidence evidence;

static void setup(void)
{
	for (int i = 0; i < 12; i++)
		snapshot_ns[i] = (i + 1) * 5 * SEC;
	window = (struct leak_window){ .span_ns = 60 * SEC, .snapshot_ns = snapshot_ns, .snapshot_nr = 12 };
	history = (struct leak_history){};
	evidence = (struct leak_evidence){ .block = block, .history = &history };
}

/* nr blocks of 100 bytes, evenly from `from` to `to` seconds, both included. */
static void born(double from, double to, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		block[evidence.block_nr++] = (struct leak_block){
			.birth_ns = (from + (nr > 1 ? (to - from) * i / (nr - 1) : 0)) * SEC, .bytes = 100, .weight = 1,
		};
	evidence.live = evidence.allocated = evidence.block_nr;
}

static struct leak_verdict judge(void)
{
	return leak_judge(&window, &evidence);
}

#define assert_kind(wanted) cr_assert_eq(judge().kind, wanted, "kind %d, expected %d", judge().kind, wanted)

TestSuite(leak_rule, .init = setup);

Test(leak_rule, horizons_are_steps_up_to_two_thirds)
{
	uint64_t horizon_ns[LEAK_HORIZONS];

	cr_assert_eq(leak_horizons(&window, horizon_ns), 7);
	cr_assert_eq(horizon_ns[0], 5 * SEC);
	cr_assert_eq(horizon_ns[1], 15 * SEC / 2);
	cr_assert_eq(horizon_ns[6], 40 * SEC);
	window.snapshot_nr = 4;
	cr_assert_eq(leak_horizons(&window, horizon_ns), 3, "15, 22.5 and 30 s; 40 s is two thirds");
}

Test(leak_rule, a_plain_leak)
{
	struct leak_verdict verdict;

	born(0, 60, 121);
	verdict = judge();
	cr_assert_eq(verdict.kind, LEAK_SURE);
	cr_assert_eq(verdict.horizon_ns, 5 * SEC);
	cr_assert_eq(verdict.survivors, 111, "born by 55 s");
	cr_assert_eq(verdict.late, 56, "from 27.5 s on");
	cr_assert_eq(verdict.early, 55);
	cr_assert_eq(verdict.periods, 8);
	cr_assert_eq(verdict.since_ns, SEC, "the block after 2 %% of the survivors");
	cr_assert_float_eq(verdict.bytes_per_s, 5600 / 27.5, 1e-9);
	cr_assert_float_eq(verdict.least_bytes_per_s, 5600 / 27.5 * (1 - 1.645 / sqrt(56)), 1e-9);
}

Test(leak_rule, times_are_relative)
{
	struct leak_verdict before, after;

	born(0, 60, 121);
	before = judge();
	window.span_ns *= 10;
	for (int i = 0; i < 12; i++)
		snapshot_ns[i] *= 10;
	for (size_t i = 0; i < evidence.block_nr; i++)
		block[i].birth_ns *= 10;
	after = judge();
	cr_assert_eq(after.kind, before.kind);
	cr_assert_eq(after.survivors, before.survivors);
	cr_assert_float_eq(after.bytes_per_s * 10, before.bytes_per_s, 1e-9);
}

Test(leak_rule, weights_count_for_rates_and_not_for_confidence)
{
	struct leak_verdict verdict;

	born(0, 54, 11);
	for (size_t i = 0; i < evidence.block_nr; i++)
		block[i].weight = 100, block[i].bytes = 10000;
	verdict = judge();
	cr_assert_eq(verdict.kind, LEAK_LIKELY);
	cr_assert_eq(verdict.doubts, LEAK_DOUBT_FEW);
	cr_assert_float_eq(verdict.blocks_per_s, 500 / 27.5, 1e-9);
}

Test(leak_rule, twelve_survivors_are_sure)
{
	born(1, 54, 12);
	assert_kind(LEAK_SURE);
	setup();
	born(1, 54, 11);
	assert_kind(LEAK_LIKELY);
}

Test(leak_rule, three_survivors_are_evidence)
{
	born(1, 40, 3);
	assert_kind(LEAK_LIKELY);
	setup();
	born(1, 40, 2);
	assert_kind(LEAK_FEW);
}

Test(leak_rule, one_free_in_twenty_is_tolerated)
{
	born(0, 19, 10);
	born(20, 55, 9);
	history.freed[0] = 1;
	cr_assert_eq(judge().horizon_ns, 5 * SEC, "1 of 20");
	history.freed[0] = 2;
	cr_assert_eq(judge().horizon_ns, 15 * SEC / 2, "2 of 21 are too many");
	for (int i = 0; i < LEAK_HORIZONS; i++)
		history.freed[i] = 10;
	assert_kind(LEAK_FREED);
}

Test(leak_rule, four_late_survivors_are_sure)
{
	/* at the horizon of 5 s the second half begins at 27.5 s */
	born(20, 27, 8);
	born(28, 54, 4);
	assert_kind(LEAK_SURE);
	setup();
	born(20, 27, 9);
	born(28, 54, 3);
	cr_assert(judge().doubts & LEAK_DOUBT_FEW);
}

Test(leak_rule, settled_below_a_quarter)
{
	born(0, 27, 40);
	born(28, 54, 9);
	assert_kind(LEAK_SETTLED);
	cr_assert_eq(judge().last_ns, 54 * SEC);
	setup();
	born(0, 27, 40);
	born(28, 54, 10);
	assert_kind(LEAK_LIKELY);
	cr_assert(judge().doubts & LEAK_DOUBT_SLOWING);
}

Test(leak_rule, slowing_below_a_half)
{
	born(0, 27, 40);
	born(28, 54, 19);
	cr_assert_eq(judge().doubts, LEAK_DOUBT_SLOWING);
	setup();
	born(0, 27, 40);
	born(28, 54, 20);
	assert_kind(LEAK_SURE);
}

Test(leak_rule, a_warm_up_has_settled)
{
	born(0, 10, 500);
	assert_kind(LEAK_SETTLED);
}

Test(leak_rule, young_from_thirteen_sixteenths_on)
{
	/* W = 55 s; 13/16 of it is 44.6875 s */
	born(44.6875, 54, 40);
	assert_kind(LEAK_LIKELY);
	setup();
	born(44.6876, 54, 40);
	assert_kind(LEAK_YOUNG);
}

Test(leak_rule, bursts_in_few_periods_are_not_sure)
{
	/* periods of 6.875 s: the first, the second, the sixth and the last of eight */
	born(0, 0.1, 8);
	born(7, 7.1, 8);
	born(35, 35.1, 8);
	born(54, 54.1, 8);
	cr_assert_eq(judge().periods, 4);
	cr_assert_eq(judge().span, 8);
	cr_assert_eq(judge().doubts, LEAK_DOUBT_BURSTS);
	setup();
	born(0, 0.1, 8);
	born(7, 7.1, 8);
	born(14, 14.1, 4);
	born(35, 35.1, 8);
	born(54, 54.1, 8);
	assert_kind(LEAK_SURE);
}

Test(leak_rule, a_batch_may_go_at_once_again)
{
	born(31, 54.9, 100);
	history.gone = 100;
	history.gone_most = 80;
	history.gone_most_at = 5; /* from 30 to 35 s */
	cr_assert_eq(judge().doubts, LEAK_DOUBT_BATCH);
	history.gone_most = 79;
	assert_kind(LEAK_SURE);
	history.gone_most = 80;
	history.gone_most_at = 6;
	assert_kind(LEAK_SURE);
}

Test(leak_rule, gaps_hide_frees)
{
	const struct leak_gap gap = { 10 * SEC, 40 * SEC, 0 };

	window.gap = &gap;
	window.gap_nr = 1;
	window.gaps_ns = 30 * SEC;
	born(0, 9.9, 20);
	born(40, 60, 40);
	/* half of the time is gaps: as many frees were missed as were seen; 49 of 60 blocks survive */
	evidence.allocated = evidence.live + 49;
	cr_assert_eq(judge().survivors, 50);
	cr_assert_eq(judge().doubts, LEAK_DOUBT_GAPS);
	evidence.allocated = evidence.live + 50;
	assert_kind(LEAK_LIKELY);
	evidence.allocated = evidence.live + 51;
	assert_kind(LEAK_GAPS);
	evidence.allocated = evidence.live + 16;
	assert_kind(LEAK_SURE);
	evidence.allocated = evidence.live + 17;
	assert_kind(LEAK_LIKELY);
}

Test(leak_rule, nothing_settles_in_gaps)
{
	struct leak_gap gap = { 15 * SEC, 52 * SEC, 0 };

	born(0, 10, 60);
	window.gap = &gap;
	window.gap_nr = 1;
	window.gaps_ns = 37 * SEC;
	assert_kind(LEAK_SETTLED);
	gap.end_ns = 53 * SEC; /* less than a quarter of the 50 s was recorded */
	window.gaps_ns = 38 * SEC;
	assert_kind(LEAK_GAPS);
}

Test(leak_rule, rates_are_by_recorded_time)
{
	const struct leak_gap gap = { 30 * SEC, 40 * SEC, 0 };

	born(0, 29.9, 60);
	born(40, 60, 41);
	window.gap = &gap;
	window.gap_nr = 1;
	window.gaps_ns = 10 * SEC;
	cr_assert_float_eq(judge().bytes_per_s, judge().late * 100 / 17.5, 1e-9);
	cr_assert_eq(judge().kind, LEAK_SURE);
}

/* ---- one block that grows ---- */

static void grow(const double *bytes, const double *count)
{
	for (uint32_t i = 0; i < 12; i++)
		leak_growth_add(&history.growth, &window, i, bytes[i], count[i]);
	born(59, 59, 1);
}

static const double ones[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };

Test(leak_rule, a_block_that_is_reallocated_grows)
{
	static const double bytes[12] = { 100, 100, 200, 200, 200, 200, 200, 400, 400, 400, 400, 400 };

	grow(bytes, ones);
	assert_kind(LEAK_GROWS);
	cr_assert_float_eq(judge().bytes_per_s, 300 / 55.0, 1e-9);
	cr_assert_eq(judge().periods, 2);
}

Test(leak_rule, growth_must_be_late_and_without_falls)
{
	static const double early[12] = { 100, 200, 400, 400, 400, 400, 400, 400, 400, 400, 400, 400 };
	static const double falls[12] = { 100, 100, 200, 200, 150, 200, 200, 400, 400, 400, 400, 400 };
	static const double once[12] = { 100, 100, 100, 100, 100, 100, 100, 400, 400, 400, 400, 400 };
	static const double twice[12] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2 };
	static const double bytes[12] = { 100, 100, 200, 200, 200, 200, 200, 400, 400, 400, 400, 400 };

	grow(early, ones);
	assert_kind(LEAK_FEW);
	setup();
	grow(falls, ones);
	assert_kind(LEAK_FEW);
	setup();
	grow(once, ones);
	assert_kind(LEAK_FEW);
	setup();
	grow(bytes, twice);
	assert_kind(LEAK_FEW);
}

/* ---- births alone ---- */

Test(leak_rule, fewer_than_four_snapshots_never_make_it_sure)
{
	struct leak_verdict verdict;

	window.snapshot_nr = 3;
	window.snapshot_ns = snapshot_ns + 9;
	born(0, 60, 121);
	verdict = judge();
	cr_assert_eq(verdict.kind, LEAK_LIKELY);
	cr_assert_eq(verdict.doubts, LEAK_DOUBT_SNAPSHOTS);
	cr_assert_eq(verdict.horizon_ns, 15 * SEC);
	cr_assert_eq(verdict.survivors, 91);
	cr_assert_float_eq(verdict.bytes_per_s, 4600 / 22.5, 1e-9);
	window.snapshot_nr = 4;
	window.snapshot_ns = snapshot_ns + 8;
	assert_kind(LEAK_SURE);
}

Test(leak_rule, births_alone_tell_a_warm_up_and_sessions)
{
	window.snapshot_nr = 1;
	window.snapshot_ns = snapshot_ns + 11;
	born(0, 10, 100);
	assert_kind(LEAK_SETTLED);
	setup();
	window.snapshot_nr = 1;
	born(30, 60, 200);
	assert_kind(LEAK_FREED);
	setup();
	window.snapshot_nr = 1;
	born(0, 40, 7);
	assert_kind(LEAK_FEW);
}

Test(leak_rule, births_alone_tolerate_four_young_blocks_more_than_survivors)
{
	window.snapshot_nr = 1;
	born(0, 44, 45);
	born(50, 60, 49);
	assert_kind(LEAK_LIKELY);
	born(60, 60, 1);
	assert_kind(LEAK_FREED);
}

Test(leak_rule, no_blocks_at_all)
{
	assert_kind(LEAK_FEW);
	window.snapshot_nr = 1;
	assert_kind(LEAK_FEW);
}

Test(leak_rule, a_window_of_one_nanosecond)
{
	static const uint64_t at[4] = { 0, 0, 0, 1 };

	window = (struct leak_window){ .span_ns = 1, .snapshot_ns = at, .snapshot_nr = 4 };
	born(0, 0, 5);
	cr_assert_eq(judge().survivors, 5);
}

/* The same sums as by asking of every second whether it is in a gap. */
Test(leak_rule, recorded_time_is_the_time_outside_of_gaps)
{
	struct leak_gap gap[6];
	uint64_t sum = 0;

	cr_assert_eq(leak_recorded_ns(&window, 3, 60), 57, "no gaps");
	for (uint32_t i = 0; i < 6; i++) {
		uint64_t begin = i == 5 ? 48 : 3 + 10 * i, end = i == 5 ? 51 : begin + i + 1; /* the last two touch */

		gap[i] = (struct leak_gap){ begin, end, sum };
		sum += end - begin;
	}
	window.gap = gap;
	window.gap_nr = 6;
	for (uint64_t begin = 0; begin <= 60; begin++) {
		uint64_t recorded = 0;

		for (uint64_t end = begin; end <= 60; end++) {
			bool is_in = false;

			cr_assert_eq(leak_recorded_ns(&window, begin, end), recorded, "%lu to %lu", begin, end);
			for (int i = 0; i < 6; i++)
				is_in |= gap[i].begin_ns <= end && end < gap[i].end_ns;
			recorded += !is_in;
		}
	}
}

/* From one snapshot: a block is known to have lived until the next gap. */
Test(leak_rule, births_alone_count_until_the_next_gap)
{
	const struct leak_gap gap[] = { { 20 * SEC, 21 * SEC, 0 }, { 40 * SEC, 41 * SEC, SEC } };

	window.snapshot_nr = 1;
	window.gap = gap;
	window.gap_nr = 2;
	born(0, 59, 60);
	cr_assert_eq(judge().survivors, 3 * 6, "born by 5 s, from 20 to 25 and 40 to 45; the horizon is 15 s");
}

/* Births by site and bin: sorted and counted as a plain count of each key says. */

TestSuite(leak_birth_keys);

Test(leak_birth_keys, sorted_and_counted)
{
	static const uint32_t sites[] = { 0, 3, 700, 70000, UINT32_MAX - 1 };
	struct leak_births births = {};
	uint64_t wanted[5][LEAK_BINS] = {};
	uint32_t random = 1;
	size_t at = 0;

	cr_assert_eq(leak_births_sort(&births), 0, "none at all");
	for (int i = 0; i < 1000; i++) {
		uint32_t site = (random = random * 1103515245 + 12345) >> 16 & 0x7fff, bin = site / 5 % LEAK_BINS;

		cr_assert_eq(leak_births_add(&births, sites[site % 5], bin), 0);
		wanted[site % 5][bin]++;
	}
	cr_assert_eq(leak_births_sort(&births), 0);
	for (size_t i = 1; i < births.key_nr; i++)
		cr_assert_leq(births.key[i - 1], births.key[i]);
	for (int i = 0; i < 5; i++)
		for (uint64_t bin = 0; bin < LEAK_BINS; bin++)
			cr_assert_eq(leak_births_count(&births, sites[i] * (uint64_t)LEAK_BINS + bin, &at),
				     wanted[i][bin]);
	cr_assert_eq(at, births.key_nr);
	leak_births_release(&births);
}

/* Growth of RSS that a recording does not explain, and what it may be. */

#define MIB 1048576.0

struct growth_case {
	const char *exe, *sampler, *unrecorded, *domains;
	unsigned int recorded; /* a domain that is recorded besides malloc */
	double rss, files, traced, mapped; /* growth, in MiB */
	double untraced;
	enum leak_untraced what;
	double missed;	    /* MiB that may be in blocks without a sample */
	double few_samples; /* growth that these may explain */
};

static void check_growth(const struct growth_case *of, size_t at)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct leaks leaks = { .rss_bytes = of->rss * MIB, .files_bytes = of->files * MIB,
			       .rss_growth = { 1, of->traced * MIB, of->mapped * MIB, of->missed * MIB } };

	cr_assert_eq(snapshot_builder__metadata(builder, "exe", of->exe), 0);
	if (of->sampler) {
		cr_assert_eq(snapshot_builder__metadata(builder, "sampler_kind", of->sampler), 0);
		if (!of->domains)
			cr_assert_eq(snapshot_builder__metadata(builder, "max_size", "512"), 0);
	}
	if (of->domains)
		cr_assert_eq(snapshot_builder__metadata(builder, "domains", of->domains), 0);
	if (of->unrecorded)
		cr_assert_eq(snapshot_builder__metadata(builder, "unrecorded", of->unrecorded), 0);
	cr_assert_eq(snapshot_builder__domain_name(builder, 0, "malloc"), 0);
	if (of->recorded)
		cr_assert_eq(snapshot_builder__domain_name(builder, of->recorded, "recorded"), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &leaks.last), 0);
	cr_expect_float_eq(leaks_untraced_growth(&leaks) / MIB, of->untraced, 0.001, "case %zu: %f", at,
			   leaks_untraced_growth(&leaks) / MIB);
	cr_expect_float_eq(leaks_missed_growth(&leaks) / MIB, of->few_samples, 0.001, "case %zu", at);
	if (of->untraced)
		cr_expect_eq(leaks_find_untraced(&leaks).kind, of->what, "case %zu", at);
	snapshot__close(leaks.last);
}

#define PYTHON "/usr/bin/python3.11"
#define REDIS "/usr/sbin/redis-server"

Test(leak_runtimes, growth_that_nothing_traced_explains)
{
	static const struct growth_case cases[] = {
		{ REDIS, .rss = 10, .traced = 1, .untraced = 9 },
		{ REDIS, .rss = 10, .traced = -1, .untraced = 10 },
		{ REDIS, .rss = 10, .traced = 6 },
		{ REDIS, .rss = 0.9 },
		{ REDIS, .rss = -10 },
		{ REDIS, .rss = 10, .files = 9, .traced = 1 },
		{ REDIS, .rss = 10, .files = -9, .traced = 9, .untraced = 10 },
		/* four samples, one in 512 KiB */
		{ REDIS, .rss = 5.1, .traced = 2, .missed = 3.5, .few_samples = 3.1 },
		{ REDIS, .rss = 5.6, .traced = 2, .missed = 3.5, .untraced = 3.6 },
		{ REDIS, .rss = 3, .traced = 2, .missed = 3.5 },
		/* mappings: as much as RSS, and more, of which most was not touched */
		{ REDIS, .recorded = DOMAIN_MAPPING, .rss = 10, .mapped = 9 },
		{ REDIS, .recorded = DOMAIN_MAPPING, .rss = 10, .mapped = 19 },
		{ REDIS, .recorded = DOMAIN_MAPPING, .rss = 10, .mapped = 70, .untraced = 10 },
		{ REDIS, .recorded = DOMAIN_MAPPING, .rss = 10, .traced = 6, .mapped = 70 },
		/* what it may be */
		{ "/opt/go", .unrecorded = "Go's heap", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_NAMED },
		{ PYTHON, .rss = 10, .traced = 1, .untraced = 9, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON " (deleted)", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON, .recorded = DOMAIN_USER, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
		{ PYTHON, .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_PYTHONS_HEAP },
		{ PYTHON, "pools", .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_LARGE_OBJECTS },
		{ PYTHON, "pools", .domains = "python,malloc", .recorded = DOMAIN_PYTHON, .rss = 10, .untraced = 10,
		  .what = LEAK_UNTRACED_UNKNOWN },
		{ PYTHON, "own", .rss = 10, .untraced = 10, .what = LEAK_UNTRACED_SMALL_OBJECTS },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		check_growth(&cases[i], i);
}

#define S UINT64_C(1000000000)
#define MOST 100

/* As text, 'x' for each moment that is kept. */
static const char *choose(const struct leak_moment *moment, size_t nr, const struct leak_span *span,
			  struct leak_times *times)
{
	static char text[MOST + 1];
	bool keep[MOST] = {};
	size_t kept = leak_moments_choose(moment, nr, span, keep, times), seen = 0;

	for (size_t i = 0; i < nr; i++) {
		text[i] = keep[i] ? 'x' : '-';
		seen += keep[i];
	}
	text[nr] = '\0';
	cr_expect_eq(kept, seen, "%zu, not %zu", kept, seen);
	return text;
}

static void fill(struct leak_moment *moment, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		moment[i] = (struct leak_moment){ .now_ns = (i + 2) * S };
}

Test(leak_moments, are_all_kept_if_there_are_few)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, MOST);
	cr_expect_str_eq(choose(moment, 12, &(struct leak_span){ S, 0 }, &times), "xxxxxxxxxxxx");
	cr_expect_eq(times.begin_ns, S);
	cr_expect_not(times.is_part);
	cr_expect_str_eq(choose(moment, 1, &(struct leak_span){ S, 0 }, &times), "x");
}

Test(leak_moments, are_chosen_evenly)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, MOST);
	cr_expect_str_eq(choose(moment, 24, &(struct leak_span){ S, 0 }, &times), "-x-x-x-x-x-x-x-x-x-x-x-x");
	cr_expect_str_eq(choose(moment, 13, &(struct leak_span){ S, 0 }, &times), "-xxxxxxxxxxxx");
}

/* However uneven they are: twelve, and the last one. */
Test(leak_moments, are_twelve_and_have_the_last_one)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	for (unsigned int seed = 1; seed < 500; seed++) {
		unsigned int state = seed;
		size_t nr = 13 + seed % 80;
		const char *kept;

		for (size_t i = 0; i < nr; i++) {
			state = state * 1103515245 + 12345;
			moment[i] = (struct leak_moment){
				.now_ns = (i ? moment[i - 1].now_ns : S) + 1 + (state >> 16) % (state % 7 ? 10 : 10000),
			};
		}
		kept = choose(moment, nr, &(struct leak_span){ S, 0 }, &times);
		nr = 0;
		for (const char *at = kept; *at; at++)
			nr += *at == 'x';
		cr_expect_eq(nr, 12, "%s", kept);
		cr_expect_eq(kept[strlen(kept) - 1], 'x', "%s", kept);
	}
}

Test(leak_moments, before_traces_were_cleared_do_not_count)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 6);
	moment[2].clears = moment[3].clears = 1;
	moment[4].clears = moment[5].clears = 2;
	cr_expect_str_eq(choose(moment, 6, &(struct leak_span){ S, 0 }, &times), "----xx");
	cr_expect_eq(times.begin_ns, moment[3].now_ns);
	cr_expect(times.is_part);
}

Test(leak_moments, may_be_only_those_of_the_end)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 10);
	cr_expect_str_eq(choose(moment, 10, &(struct leak_span){ S, 3 * S }, &times), "-------xxx");
	cr_expect_eq(times.begin_ns, 8 * S);
	cr_expect(times.is_part);
	cr_expect_str_eq(choose(moment, 10, &(struct leak_span){ S, 99 * S }, &times), "xxxxxxxxxx");
	cr_expect_not(times.is_part);
}

Test(leak_moments, of_one_time_are_one)
{
	struct leak_moment moment[MOST];
	struct leak_times times;

	fill(moment, 4);
	moment[1].now_ns = moment[2].now_ns;
	cr_expect_str_eq(choose(moment, 4, &(struct leak_span){ S, 0 }, &times), "x-xx");
}

Test(leak_moments, without_times_are_none)
{
	struct leak_moment moment[MOST] = {};
	struct leak_times times;

	cr_expect_str_eq(choose(moment, 2, &(struct leak_span){ S, 0 }, &times), "--");
	fill(moment, 2);
	cr_expect_str_eq(choose(moment, 2, &(struct leak_span){ UINT64_MAX, 0 }, &times), "--");
	cr_expect_eq(leak_moments_choose(moment, 0, &(struct leak_span){ S, 0 }, NULL, &times), 0);
}
