/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_ESTIMATE_H
#define ALLOCSNAP_ENGINE_ESTIMATE_H

#include "engine.h"

struct key_list;
struct tally;

/*
 * What of an estimate adds up, block by block and group by group. A block of size s that was taken
 * with probability 1 / w adds to the estimate s * w, and
 *
 *	beyond		s (w - 1)	what is estimated, beside the sample itself
 *	variance	s^2 w (w - 1)	of the estimate, estimated
 *	covariance	s^3 w (w - 1)^2	of the two above, estimated
 *
 * and the same with s = 1 to the count. Sums of doubles depend on their order: it is that of the
 * traces, whatever the number of threads.
 */
struct moments {
	double beyond, variance, covariance;
};

struct spread {
	struct moments size, count;
};

struct sums {
	uint64_t samples;
	struct spread all;
	struct spread apart; /* of the blocks that the other snapshot of a diff does not have */
};

/* Whether sums are asked for, and what the traces of a snapshot stand for. */
struct weighing {
	bool is_asked;
	const uint8_t *pairs; /* of each a set of enum pair; NULL: the other snapshot has none of them */
	uint64_t gap_ns;      /* those born before lived through a gap of the other; 0: not known */
	const struct tally *tally; /* what each trace adds up to; NULL: it is one block */
};

enum pair {
	PAIR_IN_TOTAL = 1, /* it takes part in both */
	PAIR_IN_GROUP = 2, /* and in the same group */
};

/* weight 1 where the snapshot has none. pair: a set of enum pair. */
void sums_add_block(struct sums *group, struct sums *total, uint64_t size, double weight,
		    uint8_t pair);

void spread_add(struct spread *to, const struct spread *what);

/*
 * As spread_add(), of what may be the same blocks again: as if all that the one misses the other misses, too. Deviations
 * add up then, which is the most that they can.
 */
void spread_add_alike(struct spread *to, const struct spread *what);

/* Adds sums that were made elsewhere; none of their samples is in the other snapshot of a diff. */
void sums_add(struct sums *to, const struct sums *what);

/* By key id; what is not there yet is 0. sums_column_release() ends a zeroed one. */
struct sums_column {
	struct sums *key;
	size_t key_nr, key_alloc;
	uint32_t *times; /* of the keys of one list: how often they were there; else 0 */
	size_t times_nr, times_alloc;
	struct sums total;
};

/*
 * Adds to each key of the list. One that is there m times has its blocks m times, all of the same
 * chance: the variance is m^2-fold. 0 or -ENOMEM.
 */
int sums_column_add(struct sums_column *column, const struct key_list *list,
		    const struct sums *sums);
struct sums sums_column_get(const struct sums_column *column, size_t key);
void sums_column_release(struct sums_column *column);

/* What samples add up to becomes what they stand for. -ERANGE with a line in *why. */
int estimate_cost(struct cost *cost, const struct sums *sums, struct reason *why);

/* A side of a comparison: what its samples add up to, and what that makes. */
struct estimate_side {
	struct cost sampled, cost;
	struct sums sums;
};

/* old NULL: no diff. */
struct estimate estimate_make(const struct estimate_side *now, const struct estimate_side *old);

#endif
