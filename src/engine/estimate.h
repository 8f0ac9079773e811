/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ESTIMATE_H
#define ALLOCSNAP_ENGINE_ESTIMATE_H

#include "engine.h"

struct key_list;
struct tally;

/*
 * The additive parts of an estimate, for blocks and for groups. A block of size s that was sampled with
 * probability 1 / w adds s * w to the estimate, and
 *
 *	beyond		s (w - 1)	the estimate, less the sample itself
 *	variance	s^2 w (w - 1)	of the estimate, estimated
 *	covariance	s^3 w (w - 1)^2	of the two above, estimated
 *
 * and the same with s = 1 to the count. Sums of doubles depend on their order, which is the order of the
 * traces, whatever the number of threads.
 */
struct moments {
	double beyond, variance, covariance;
};

struct spread {
	struct moments size, count;
};

struct sums {
	uint64_t samples, apart_samples;
	struct spread all;
	struct spread apart; /* blocks that the other snapshot of a diff does not have */
};

/* Whether sums are requested, and how the traces of a snapshot are weighted. */
struct weighing {
	bool is_asked;
	const uint8_t *pairs; /* a set of enum pair for each trace; NULL: the other snapshot has none of them */
	uint64_t gap_ns;      /* blocks born before lived through a gap of either snapshot; 0: not known */
	const struct tally *tally; /* the cost of each trace; NULL: a trace is one block */
	/*
	 * The coarsest rate that a budget used now and then. Blocks of that time may have no sample although others of
	 * their group have, so the samples alone do not show the error. In a diff: what only this side may lack.
	 */
	double unseen_bytes, unseen_apart_bytes;
	bool is_open; /* the errors of estimates are not known: they have no intervals (struct estimate) */
};

enum pair {
	PAIR_IN_TOTAL = 1, /* the block is selected in both snapshots */
	PAIR_IN_GROUP = 2, /* and is in the same group of both */
};

/* Whether samples are pools of CPython (--sample pools), which are not chosen by chance. */
bool snapshot_samples_pools(const struct snapshot *snapshot);

/* Whether it has the heap of Go's runtime. */
bool snapshot_is_of_go(const struct snapshot *snapshot);

/* weight is 1 if the snapshot has no weights. pair: a set of enum pair. */
void sums_add_block(struct sums *group, struct sums *total, uint64_t size, double weight,
		    uint8_t pair);

/*
 * Sums of the sizes alone, for a question that has no other: how many bytes more than the estimate there may be, with
 * 95 % confidence. unseen_bytes: the rate of the samples, of which some may be missing by chance; more than 0.
 */
void moments_add_block(struct moments *to, uint64_t size, double weight);
double moments_missed(const struct moments *moments, double unseen_bytes);

void spread_add(struct spread *to, const struct spread *what);

/*
 * Like spread_add(), for sums that may contain the same blocks. It assumes that their errors always
 * have the same sign. So it adds deviations instead of variances, which gives the upper limit.
 */
void spread_add_alike(struct spread *to, const struct spread *what);

/* Adds finished sums; none of their samples is in the other snapshot of a diff. */
void sums_add(struct sums *to, const struct sums *what);

/*
 * Sums by key id; a key that is not there yet is 0. A zeroed struct is empty; sums_column_release()
 * ends it.
 */
struct sums_column {
	struct sums *key;
	size_t key_nr, key_alloc;
	uint32_t *times; /* for the keys of one list: how often each occurs; otherwise 0 */
	size_t times_nr, times_alloc;
	struct sums total;
};

/*
 * Adds the sums to each key of the list. A key that occurs m times gets its blocks m times, sampled
 * together: the variance is multiplied by m^2. 0 or -ENOMEM.
 */
int sums_column_add(struct sums_column *column, const struct key_list *list,
		    const struct sums *sums);
struct sums sums_column_get(const struct sums_column *column, size_t key);
void sums_column_release(struct sums_column *column);

/* Converts the cost of the samples to the estimated cost. -ERANGE with a line in *why. */
int estimate_cost(struct cost *cost, const struct sums *sums, struct reason *why);

/* One side of a comparison: the sum of its samples, and the estimate from it. */
struct estimate_side {
	struct cost sampled, cost;
	struct sums sums;
	double unseen_bytes, unseen_apart_bytes; /* see struct weighing */
	bool is_open;
};

/* old NULL: no diff. */
struct estimate estimate_make(const struct estimate_side *now, const struct estimate_side *old);

#endif
