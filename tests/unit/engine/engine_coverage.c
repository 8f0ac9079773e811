// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine.h"
#include "engine_random.h"
#include "snapshot.h"

/*
 * Recordings of populations that are known, a thousand of each: do the estimates meet the truth on
 * average, and do the intervals hold it in 95 of 100? The seeds are fixed: it goes the same way each
 * time.
 */

TestSuite(engine_coverage, .timeout = 600);

#define SAMPLE_BYTES 524288.0
#define RUN_NR 1000
#define SIZE_MAX_NR 5
#define ENOUGH 30 /* samples of a row, from which on intervals are held to account */

/* Blocks of a size: in both snapshots, in the old one only, in the new one only. */
struct group {
	uint64_t size;
	uint32_t stay, go, come;
};

/* One call site. */
struct site {
	const char *name;
	struct group group[SIZE_MAX_NR];
};

/* How often the intervals held the truth. */
struct tally {
	unsigned int run_nr, held_size, held_count;
	double size_sum, size_squares; /* of the errors, in truths */
};

/* ---- recordings ----------------------------------------------------------------------------- */

static double uniform(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 11) * 0x1p-53;
}

/* How many of nr blocks are taken, each with probability p: from one to the next that is. */
static uint32_t take(uint64_t *random, uint32_t nr, double p)
{
	double at = 0;
	uint32_t taken = 0;

	for (;;) {
		at += 1 + floor(log(1 - uniform(random)) / log1p(-p));
		if (at > nr)
			return taken;
		taken++;
	}
}

static void add(struct snapshot_builder *builder, uint32_t traceback, uint64_t size, uint32_t nr,
		uint64_t *identity)
{
	struct snap_trace trace = {
		.size = size, .traceback = traceback, .weight = -1 / expm1(-(size / SAMPLE_BYTES)),
	};

	for (uint32_t i = 0; i < nr; i++) {
		trace.address = trace.birth_ns = ++*identity;
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	}
}

static uint32_t site_traceback(struct snapshot_builder *builder, const char *name)
{
	struct snap_frame frame = { .lineno = 1 };
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, name, &frame.filename), 0);
	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &id), 0);
	return id;
}

static struct snapshot_builder *begin(void)
{
	static const char *const keys[] = { "pid", "boot_id", "start_time_ticks" };
	struct snapshot_builder *builder = snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_WEIGHT);

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		cr_assert_eq(snapshot_builder__metadata(builder, keys[i], "1"), 0);
	return builder;
}

/* The same samples of what stays go into both. */
static void record(const struct site *site, uint64_t *random, struct snapshot *ret[2])
{
	struct snapshot_builder *old = begin(), *new = begin();
	uint32_t in_old = site_traceback(old, site->name), in_new = site_traceback(new, site->name);
	uint64_t identity = 0;

	for (int i = 0; i < SIZE_MAX_NR && site->group[i].size; i++) {
		const struct group *group = &site->group[i];
		double p = -expm1(-(group->size / SAMPLE_BYTES));
		uint32_t stay = take(random, group->stay, p);
		uint64_t again = identity;

		add(old, in_old, group->size, stay, &again);
		add(new, in_new, group->size, stay, &identity);
		add(old, in_old, group->size, take(random, group->go, p), &identity);
		add(new, in_new, group->size, take(random, group->come, p), &identity);
	}
	cr_assert_eq(snapshot_builder__finish(old, &ret[0]), 0);
	cr_assert_eq(snapshot_builder__finish(new, &ret[1]), 0);
}

/* ---- what came of them ------------------------------------------------------------------------ */

static void note(struct tally *tally, const struct interval interval[2], const struct cost *estimate,
		 const struct cost *truth)
{
	double error = ((double)estimate->size - truth->size) / (truth->size ?: 1);

	tally->run_nr++;
	tally->held_size += interval[0].low <= truth->size && truth->size <= interval[0].high;
	tally->held_count += interval[1].low <= truth->count && truth->count <= interval[1].high;
	tally->size_sum += error;
	tally->size_squares += error * error;
}

static void add_cost(struct cost *cost, uint64_t size, uint32_t nr, int sign)
{
	cost->size += sign * (int64_t)(size * nr);
	cost->count += sign * (int64_t)nr;
}

static struct cost truth_of(const struct site *site, bool is_diff)
{
	struct cost truth = {};

	for (int i = 0; i < SIZE_MAX_NR; i++) {
		const struct group *group = &site->group[i];

		add_cost(&truth, group->size, group->come, 1);
		if (is_diff)
			add_cost(&truth, group->size, group->go, -1);
		else
			add_cost(&truth, group->size, group->stay, 1);
	}
	return truth;
}

static void ask(const struct site *site, uint64_t *random, struct tally *live, struct tally *diff)
{
	const struct cost truth = truth_of(site, false), diff_truth = truth_of(site, true);
	struct snapshot *snapshot[2];
	struct statistics *got = NULL;
	const struct estimate *estimate;

	record(site, random, snapshot);
	cr_assert_eq(snapshot_compare(snapshot[0], snapshot[1], &(struct engine_options){}, &got, NULL), 0);
	estimate = got->total_estimate;
	if (estimate->samples >= ENOUGH)
		note(live, (struct interval[2]){ estimate->size, estimate->count }, &got->total, &truth);
	if (estimate->samples >= ENOUGH)
		note(diff, (struct interval[2]){ estimate->size_diff, estimate->count_diff },
		     &got->total_diff, &diff_truth);
	statistics_free(got);
	snapshot__close(snapshot[0]);
	snapshot__close(snapshot[1]);
}

/* The limit is 4.5 standard deviations of the mean: chance exceeds it once in 150,000. */
static void expect_unbiased(const char *name, const struct tally *tally)
{
	double mean = tally->size_sum / tally->run_nr;
	double variance = tally->size_squares / tally->run_nr - mean * mean;

	cr_expect_lt(fabs(mean), 4.5 * sqrt(variance / tally->run_nr), "%s: off by %.4f of the truth",
		     name, mean);
}

static void expect_held(const char *what, const char *name, unsigned int held, unsigned int run_nr,
			double least, double most)
{
	double share = (double)held / run_nr;

	cr_expect(share >= least && share <= most, "%s of %s: %.4f of %u are held", what, name, share,
		  run_nr);
}

static void add_up(struct tally *all, const struct tally *one)
{
	all->run_nr += one->run_nr;
	all->held_size += one->held_size;
	all->held_count += one->held_count;
}

static void run(const struct site *site, size_t nr, bool is_diff)
{
	struct tally all = {};

	for (size_t i = 0; i < nr; i++) {
		struct tally live = {}, diff = {}, *tally = is_diff ? &diff : &live;
		uint64_t random = 88172645463325252ull + i;

		for (int k = 0; k < RUN_NR; k++)
			ask(&site[i], &random, &live, &diff);
		cr_expect_geq(tally->run_nr, RUN_NR * 95 / 100, "%s: too few samples", site[i].name);
		expect_unbiased(site[i].name, tally);
		expect_held("sizes", site[i].name, tally->held_size, tally->run_nr, 0.93, 0.98);
		expect_held("counts", site[i].name, tally->held_count, tally->run_nr, 0.93, 0.99);
		add_up(&all, tally);
	}
	expect_held("sizes", "all", all.held_size, all.run_nr, 0.93, 0.97);
	/* The intervals allow for small blocks that chance left out: too much in the runs in which it left out none. */
	expect_held("counts", "all", all.held_count, all.run_nr, 0.93, 0.98);
}

/* ---- populations --------------------------------------------------------------------------------- */

static const struct site of_one_size[] = {
	{ "64 bytes, 45 samples", { { 64, 0, 0, 368640 } } },
	{ "64 bytes, 100", { { 64, 0, 0, 819200 } } },
	{ "4 KiB, 50", { { 4096, 0, 0, 6400 } } },
	{ "256 KiB, 60 of 152", { { 262144, 0, 0, 152 } } },
	{ "1 MiB, 50 of 58", { { 1048576, 0, 0, 58 } } },
};

Test(engine_coverage, of_intervals_for_blocks_of_one_size_is_95_percent)
{
	run(of_one_size, ARRAY_SIZE(of_one_size), false);
}

static const struct site of_many_sizes[] = {
	{ "64 bytes and 4 KiB", { { 64, 0, 0, 204800 }, { 4096, 0, 0, 3200 } } },
	{ "16 bytes to 64 KiB",
	  { { 16, 0, 0, 327680 }, { 128, 0, 0, 40960 }, { 1024, 0, 0, 5120 }, { 8192, 0, 0, 640 },
	    { 65536, 0, 0, 80 } } },
	{ "a few small ones", { { 16, 0, 0, 163840 }, { 65536, 0, 0, 400 } } },
	{ "large ones, hardly a sample", { { 64, 0, 0, 81920 }, { 1048576, 0, 0, 46 } } },
	{ "five samples of tiny ones",
	  { { 4, 0, 0, 655360 }, { 16, 0, 0, 65536 }, { 64, 0, 0, 65536 }, { 256, 0, 0, 65536 }, { 4096, 0, 0, 4096 } } },
	{ "1 KiB and 64 KiB", { { 1024, 0, 0, 30720 }, { 65536, 0, 0, 480 } } },
};

Test(engine_coverage, of_intervals_for_blocks_of_many_sizes_is_95_percent)
{
	run(of_many_sizes, ARRAY_SIZE(of_many_sizes), false);
}

/* Most blocks stay. If their error were in the difference, too, all intervals would hold the truth. */
static const struct site changing[] = {
	{ "more of the same", { { 64, 1638400, 0, 409600 } } },
	{ "as many go as come", { { 4096, 25600, 6400, 6400 } } },
	{ "more go than come", { { 512, 102400, 81920, 40960 } } },
	{ "small ones come, large ones go", { { 64, 819200, 81920, 409600 }, { 65536, 800, 400, 160 } } },
	{ "all are replaced", { { 1024, 0, 30720, 40960 } } },
};

Test(engine_coverage, of_intervals_for_differences_is_95_percent)
{
	run(changing, ARRAY_SIZE(changing), true);
}

/* ---- few samples --------------------------------------------------------------------------------- */

static const struct site of_few_samples[] = {
	{ "four sizes, 10 samples", { { 50, 0, 0, 14000 }, { 300, 0, 0, 2800 }, { 3000, 0, 0, 490 }, { 100000, 0, 0, 26 } } },
	{ "four sizes, 20 samples", { { 50, 0, 0, 28000 }, { 300, 0, 0, 5600 }, { 3000, 0, 0, 980 }, { 100000, 0, 0, 52 } } },
	{ "one size, 12 samples", { { 64, 0, 0, 98304 } } },
};

/* How many of the recordings have an interval of the number of blocks, and how many of these hold the truth. */
static struct tally count_few(const struct site *site, uint64_t *random)
{
	const struct cost truth = truth_of(site, false);
	struct tally told = {};

	for (int i = 0; i < RUN_NR; i++) {
		struct snapshot *snapshot[2];
		struct statistics *got = NULL;

		record(site, random, snapshot);
		cr_assert_eq(snapshot_statistics(snapshot[1], &(struct engine_options){}, &got, NULL), 0);
		if (got->total_estimate->has_count)
			note(&told, (struct interval[2]){ got->total_estimate->size, got->total_estimate->count },
			     &got->total, &truth);
		statistics_free(got);
		snapshot__close(snapshot[0]);
		snapshot__close(snapshot[1]);
	}
	return told;
}

/* With 10 samples three of four intervals would hold the truth: so the engine gives no interval. */
Test(engine_coverage, of_counts_is_told_by_twenty_samples_or_by_one_size)
{
	uint64_t random = 88172645463325252ull;
	struct tally ten = count_few(&of_few_samples[0], &random), twenty = count_few(&of_few_samples[1], &random),
		     alike = count_few(&of_few_samples[2], &random);

	cr_expect_leq(ten.run_nr, RUN_NR / 50, "ten samples tell %u counts", ten.run_nr);
	cr_expect(twenty.run_nr > RUN_NR / 4 && twenty.run_nr < RUN_NR * 3 / 4, "twenty samples tell %u counts", twenty.run_nr);
	expect_held("counts", "twenty samples", twenty.held_count, twenty.run_nr, 0.93, 0.99);
	cr_expect_geq(alike.run_nr, RUN_NR * 98 / 100, "one size tells %u counts", alike.run_nr);
	expect_held("counts", "one size", alike.held_count, alike.run_nr, 0.93, 0.98);
}

const char *const random_metadata[] = { "domain.0", "libc", "domain.5", "pool", NULL };

uint32_t random_below(uint64_t *random, uint32_t end)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return (*random >> 33) % end;
}

static struct data_frame make_frame(uint64_t *random)
{
	static const char *const files[] = { "a.c", "b.c", "lib/c.pyc", "\xc3\xa9.c" };
	static const char *const functions[] = { "malloc", "operator new(unsigned long)", "xmalloc",
						 "leak", "main", NULL };
	static const char *const objects[] = { "/bin/a", "/lib/b.so", NULL };
	struct data_frame frame = {
		.filename = files[random_below(random, ARRAY_SIZE(files))],
		.lineno = random_below(random, 4),
		.function = functions[random_below(random, ARRAY_SIZE(functions))],
		.object = objects[random_below(random, ARRAY_SIZE(objects))],
		.offset = random_below(random, 3) * 16,
	};

	return frame;
}

void random_origins(uint64_t *random, struct data_trace origin[ORIGIN_NR])
{
	static const uint32_t domains[] = { 0, 5, 7 };

	for (int i = 0; i < ORIGIN_NR; i++) {
		uint32_t nframe = random_below(random, DATA_FRAMES + 1);

		origin[i] = (struct data_trace){};
		for (uint32_t k = 0; k < nframe; k++)
			origin[i].frame[k] = make_frame(random);
		if (i % 3)
			memcpy(origin[i].frame, origin[i - 1].frame, sizeof(origin[i].frame));
		origin[i].domain = domains[i % 3];
	}
}

/* ---- questions --------------------------------------------------------------------------------- */

static const struct filter filters[][2] = {
	{ { .inclusive = true, .filename_pattern = "*.c" } },
	{ { .inclusive = true, .function_pattern = "l*", .all_frames = true },
	  { .has_lineno = true, .lineno = 2 } },
	{ { .inclusive = true, .has_domain = true, .domain = 5 },
	  { .object_pattern = "/lib/*", .all_frames = true } },
	{ { .has_domain = true, .domain_name = "pool" } },
	{ { .inclusive = true, .has_domain = true, .domain = 7, .filename_pattern = "a.c" },
	  { .inclusive = true, .filename_pattern = "lib/*.py" } },
};

struct engine_options random_options(uint64_t *random, enum key_type key_type)
{
	static const char *const skip[] = { "x*" };
	uint32_t filter = random_below(random, ARRAY_SIZE(filters) + 1);
	struct engine_options options = {
		.key_type = key_type,
		.cumulative = key_type_has_cumulative(key_type) && random_below(random, 2),
		.keep_wrappers = !random_below(random, 3),
		.skip = skip,
		.skip_nr = random_below(random, 2),
		.sort = random_below(random, SORT_ORDER_NR),
	};

	if (filter < ARRAY_SIZE(filters)) {
		options.select.filter = filters[filter];
		options.select.filter_nr = 1 + (filter != 0 && filter != 3);
	}
	return options;
}

/* ---- answers ----------------------------------------------------------------------------------- */

static bool same_interval(const struct interval *a, const struct interval *b)
{
	return a->low == b->low && a->high == b->high;
}

bool same_estimate(const struct estimate *a, const struct estimate *b)
{
	if (!a || !b)
		return a == b;
	return a->samples == b->samples && a->old_samples == b->old_samples &&
	       same_interval(&a->size, &b->size) && same_interval(&a->count, &b->count) &&
	       same_interval(&a->size_diff, &b->size_diff) &&
	       same_interval(&a->count_diff, &b->count_diff);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static bool same_frame(const struct frame_view *a, const struct frame_view *b)
{
	return same_text(a->filename, b->filename) && same_text(a->function, b->function) &&
	       same_text(a->object, b->object) && a->lineno == b->lineno && a->offset == b->offset;
}

bool same_cost(const struct cost *a, const struct cost *b)
{
	return a->size == b->size && a->count == b->count;
}

bool same_row(const struct statistic *a, const struct statistic *b)
{
	bool same = a->nframe == b->nframe && same_text(a->key, b->key) &&
		    same_cost(&a->cost, &b->cost) && same_cost(&a->diff, &b->diff) &&
		    same_estimate(a->estimate, b->estimate);

	for (uint32_t i = 0; same && i < a->nframe; i++)
		same = same_frame(&a->frame[i], &b->frame[i]);
	return same;
}
