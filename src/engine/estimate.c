// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/estimate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "engine/keys.h"
#include "shared/call_types.h"
#include "snapshot.h"

/* ---- sums --------------------------------------------------------------------------------- */

static struct moments moments_of(double size, double weight)
{
	double beyond = size * (weight - 1);

	return (struct moments){
		.beyond = beyond,
		.variance = size * weight * beyond,
		.covariance = size * weight * beyond * beyond,
	};
}

/* Adds blocks that occur `times` times each. The occurrences of a block were sampled together. */
static void moments_add(struct moments *to, const struct moments *what, double times)
{
	to->beyond += times * what->beyond;
	to->variance += times * times * what->variance;
	to->covariance += times * times * times * what->covariance;
}

void spread_add(struct spread *to, const struct spread *what)
{
	moments_add(&to->size, &what->size, 1);
	moments_add(&to->count, &what->count, 1);
}

static void moments_add_alike(struct moments *to, const struct moments *what)
{
	double deviation = sqrt(to->variance) + sqrt(what->variance);
	double skew = cbrt(to->covariance) + cbrt(what->covariance);

	to->beyond += what->beyond;
	to->variance = deviation * deviation;
	to->covariance = skew * skew * skew;
}

void spread_add_alike(struct spread *to, const struct spread *what)
{
	moments_add_alike(&to->size, &what->size);
	moments_add_alike(&to->count, &what->count);
}

void sums_add_block(struct sums *group, struct sums *total, uint64_t size, double weight,
		    uint8_t pair)
{
	const struct spread block = { moments_of(size, weight), moments_of(1, weight) };

	group->samples++;
	total->samples++;
	spread_add(&group->all, &block);
	spread_add(&total->all, &block);
	if (!(pair & PAIR_IN_GROUP)) {
		group->apart_samples++;
		spread_add(&group->apart, &block);
	}
	if (!(pair & PAIR_IN_TOTAL)) {
		total->apart_samples++;
		spread_add(&total->apart, &block);
	}
}

void sums_add(struct sums *to, const struct sums *what)
{
	to->samples += what->samples;
	to->apart_samples += what->samples;
	spread_add(&to->all, &what->all);
	spread_add(&to->apart, &what->all);
}

/* ---- by key ------------------------------------------------------------------------------- */

static int column_reserve(struct sums_column *column, uint32_t key)
{
	return array_fill(column, key, key + 1ull, at, (struct sums){}) ?: array_fill(column, times, key + 1ull, at, 0);
}

static int count_times(struct sums_column *column, const struct key_list *list)
{
	int err = 0;

	for (size_t i = 0; i < list->id_nr && !err; i++) {
		err = column_reserve(column, list->id[i]);
		if (!err)
			column->times[list->id[i]]++;
	}
	return err;
}

static void spread_add_times(struct spread *to, const struct spread *what, double times)
{
	moments_add(&to->size, &what->size, times);
	moments_add(&to->count, &what->count, times);
}

int sums_column_add(struct sums_column *column, const struct key_list *list,
		    const struct sums *sums)
{
	int err = count_times(column, list);

	for (size_t i = 0; i < list->id_nr && !err; i++) {
		struct sums *to = &column->key[list->id[i]];
		uint32_t *times = &column->times[list->id[i]];

		if (!*times)
			continue; /* an earlier element of the list has added it */
		to->samples += sums->samples;
		to->apart_samples += sums->apart_samples;
		spread_add_times(&to->all, &sums->all, *times);
		spread_add_times(&to->apart, &sums->apart, *times);
		*times = 0;
	}
	return err;
}

struct sums sums_column_get(const struct sums_column *column, size_t key)
{
	return key < column->key_nr ? column->key[key] : (struct sums){};
}

void sums_column_release(struct sums_column *column)
{
	free(column->key);
	free(column->times);
	*column = (struct sums_column){};
}

/* ---- estimates ---------------------------------------------------------------------------- */

/* Returns false if the number does not fit, or is NaN. */
static bool add_beyond(int64_t *sampled, double beyond)
{
	return beyond < 0x1p63 && !__builtin_add_overflow(*sampled, llround(beyond), sampled);
}

int estimate_cost(struct cost *cost, const struct sums *sums, struct reason *why)
{
	if (add_beyond(&cost->size, sums->all.size.beyond) &&
	    add_beyond(&cost->count, sums->all.count.beyond))
		return 0;
	return reason_set(why, -ERANGE, "the estimates add up to more than 2^63 - 1");
}

static int64_t to_int(double number)
{
	return number >= 0x1p63 ? INT64_MAX : number <= -0x1p63 ? INT64_MIN : (int64_t)number;
}

/*
 * The interval of the true value, by the score method. The distance between estimate and truth is
 * measured in standard deviations. Wald's interval uses the deviation of the estimate itself. The score
 * method uses the deviation that the estimate would have if the truth were at the interval's end. This
 * matters because a sample that happens to be small makes both the estimate and its variance small, so
 * Wald's interval is narrow when it should be wide: with 30 samples of mixed sizes it contains the truth
 * in 87 of 100 cases. The variance is assumed to depend on the estimate by a line, whose slope is the
 * covariance over the variance. The ends t are the roots of
 *
 *	(t - centre)^2 = z^2 (variance + slope (t - centre))
 *
 * For blocks of one size this is Wilson's interval of the binomial distribution.
 */
struct reach {
	double shift, half; /* the ends are centre + shift ± half */
};

static struct reach reach_of(const struct moments *moments)
{
	const double z = 1.959963984540054; /* 95 % of a normal distribution */
	double shift = z * z * moments->covariance / moments->variance / 2;

	return (struct reach){ shift, sqrt(z * z * moments->variance + shift * shift) };
}

static struct interval around(double centre, const struct moments *moments, int64_t estimate)
{
	struct interval interval = { estimate, estimate };
	struct reach reach;

	if (!(moments->variance > 0))
		return interval;
	reach = reach_of(moments);
	interval.low = to_int(ceil(centre + reach.shift - reach.half)); /* the true value is a whole number */
	interval.high = to_int(floor(centre + reach.shift + reach.half));
	if (interval.low > estimate)
		interval.low = estimate;
	if (interval.high < estimate)
		interval.high = estimate;
	return interval;
}

static struct interval interval_of(int64_t sampled, int64_t estimate, const struct moments *moments)
{
	struct interval interval = around(sampled + moments->beyond, moments, estimate);

	if (interval.low < sampled)
		interval.low = sampled;
	return interval;
}

/*
 * The interval of a difference. Variances add up. Covariances are subtracted, because the two sides
 * have opposite signs.
 */
static struct interval interval_of_diff(int64_t sampled, int64_t estimate,
					const struct moments *now, const struct moments *old)
{
	const struct moments moments = {
		.beyond = now->beyond - old->beyond,
		.variance = now->variance + old->variance,
		.covariance = now->covariance - old->covariance,
	};

	return around(sampled + moments.beyond, &moments, estimate);
}

/* Few blocks of a group may have no sample by chance, even if several are expected. */
#define UNSEEN_SAMPLES 2

/* The same for counts, of the small blocks. tests/oracle/coverage.py shows what other numbers would give. */
#define UNEVEN_SAMPLES 4

/*
 * For counts. Small blocks are rare among the samples and have the greatest weights, so those that chance has left out
 * make the variance too small, too. Some more samples of such weights are added: of the slope of the variance, which
 * they dominate. The less the weights differ from their mean (excess 0: not at all), the less is added. mean: what a
 * sample adds beyond itself.
 */
static struct moments moments_add_uneven(const struct moments *count, double mean)
{
	double slope = count->variance > 0 ? count->covariance / count->variance : 0, excess = slope - mean;
	struct moments sum = *count;

	if (excess > 0) {
		sum.variance += UNEVEN_SAMPLES * slope * excess;
		sum.covariance += UNEVEN_SAMPLES * slope * slope * excess;
	}
	return sum;
}

/* Adds the error of some samples by the coarsest rate. mean: size of a block, for counts; 1 for sizes. */
static struct moments moments_add_unseen(const struct moments *moments, double unseen_bytes, double mean)
{
	double weight = unseen_bytes / mean;
	struct moments sum = *moments;

	sum.variance += UNSEEN_SAMPLES * weight * weight;
	sum.covariance += UNSEEN_SAMPLES * weight * weight * weight;
	return sum;
}

void moments_add_block(struct moments *to, uint64_t size, double weight)
{
	const struct moments block = moments_of(size, weight);

	moments_add(to, &block, 1);
}

double moments_missed(const struct moments *moments, double unseen_bytes)
{
	const struct moments all = moments_add_unseen(moments, unseen_bytes, 1);
	const struct reach reach = reach_of(&all);

	return reach.shift + reach.half;
}

static double mean_size(const struct cost *sampled)
{
	return sampled->count > 0 && sampled->size > sampled->count ? (double)sampled->size / sampled->count : 1;
}

/* spread: of all samples of the side, or of those that the other side lacks. */
static struct spread spread_with_unseen(const struct spread *spread, double unseen_bytes, const struct estimate_side *side)
{
	double beyond = side->sums.samples ? side->sums.all.count.beyond / side->sums.samples : 0;
	const struct moments count = moments_add_uneven(&spread->count, beyond);

	return (struct spread){
		.size = moments_add_unseen(&spread->size, unseen_bytes, 1),
		.count = moments_add_unseen(&count, unseen_bytes, mean_size(&side->sampled)),
	};
}

/* The samples of blocks of different sizes that show how far off the number of blocks may be. */
#define SAMPLES_TO_COUNT 20
#define ALIKE_TO_COUNT 4 /* if their weights are alike */

/* Weights are alike if their mean in the variance is at most so many times their mean. */
#define ALIKE 1.1

/*
 * Whether there is an interval of the number of blocks. Chance may leave out all blocks of the smallest sizes, most of
 * the blocks by number, and then the samples show nothing of it: the fewer there are, the more often. Samples of one
 * weight, if there are some, are taken to be of blocks of one size. tests/oracle/coverage.py shows how many intervals
 * hold the truth.
 */
static bool count_is_told(uint64_t samples, const struct moments *count)
{
	return samples >= SAMPLES_TO_COUNT || !(count->variance > 0) ||
	       (samples >= ALIKE_TO_COUNT &&
		count->covariance / count->variance <= ALIKE * count->beyond / samples);
}

static void add_intervals(struct estimate *estimate, const struct estimate_side *now)
{
	const struct spread all = spread_with_unseen(&now->sums.all, now->unseen_bytes, now);

	estimate->has_intervals = true;
	estimate->size = interval_of(now->sampled.size, now->cost.size, &all.size);
	estimate->has_count = count_is_told(now->sums.samples, &now->sums.all.count);
	if (estimate->has_count)
		estimate->count = interval_of(now->sampled.count, now->cost.count, &all.count);
}

static void add_diff_intervals(struct estimate *estimate, const struct estimate_side *now,
			       const struct estimate_side *old)
{
	const struct spread apart = spread_with_unseen(&now->sums.apart, now->unseen_apart_bytes, now);
	const struct spread old_apart = spread_with_unseen(&old->sums.apart, old->unseen_apart_bytes, old);

	struct moments both = now->sums.apart.count;

	moments_add(&both, &old->sums.apart.count, 1);
	estimate->size_diff = interval_of_diff(now->sampled.size - old->sampled.size,
					       now->cost.size - old->cost.size, &apart.size, &old_apart.size);
	estimate->has_count_diff = count_is_told(now->sums.apart_samples + old->sums.apart_samples, &both);
	if (estimate->has_count_diff)
		estimate->count_diff = interval_of_diff(now->sampled.count - old->sampled.count,
							now->cost.count - old->cost.count, &apart.count,
							&old_apart.count);
}

bool snapshot_samples_pools(const struct snapshot *snapshot)
{
	const char *kind = snapshot__metadata(snapshot, "sampler_kind");

	return kind && !strcmp(kind, "pools");
}

bool snapshot_is_of_go(const struct snapshot *snapshot)
{
	return snapshot__domain_name(snapshot, DOMAIN_GO);
}

struct estimate estimate_make(const struct estimate_side *now, const struct estimate_side *old)
{
	struct estimate estimate = { .samples = now->sums.samples, .old_samples = old ? old->sums.samples : 0 };

	if (now->is_open || (old && old->is_open))
		return estimate;
	add_intervals(&estimate, now);
	if (old)
		add_diff_intervals(&estimate, now, old);
	return estimate;
}
