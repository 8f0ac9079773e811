/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TALLY_H
#define ALLOCSNAP_ENGINE_TALLY_H

#include "engine.h"
#include "engine/estimate.h"

/*
 * Questions about sums of many snapshots. The rows are the traces of one snapshot, the dictionary: each
 * is a traceback and a domain, occurs once, and has no size or age of its own. Their costs are in a
 * separate array.
 *
 *	dictionary: trace 0, 1, 2 …	traceback, domain
 *	tally: cost[0, 1, 2 …]		the sum over the snapshots
 */
struct tally {
	const struct cost *cost; /* for each trace of the dictionary; count 0: not selected */
	const struct sums *sums; /* one for each trace if a snapshot was sampled; else NULL, and the costs are exact */
	/*
	 * The coarsest rate of any budget (struct weighing). Samples of all processes together are samples of all their
	 * blocks, so they may lack what samples of one may lack, and not more with each process.
	 */
	double unseen_bytes;
	bool is_open; /* any of the recordings (struct weighing) */
};

/*
 * snapshot_statistics() and snapshot_compare() for such sums: with the same keys, filters, order,
 * estimates and errors. A dictionary lacks sizes, ages, threads and gaps. So conditions on these,
 * measures other than live, and the key types process, size-class, age and thread give -EINVAL with
 * a line in *why. In a diff no sample counts as being in both.
 */
int tally_statistics(const struct snapshot *dictionary, const struct tally *tally,
		     const struct engine_options *options, struct statistics **ret, struct reason *why);
int tally_compare(const struct snapshot *dictionary, const struct tally *old_tally,
		  const struct tally *new_tally, const struct engine_options *options,
		  struct statistics **ret, struct reason *why);

/*
 * Whether such sums can answer the question: 0 or -EINVAL, as above. The functions above check it,
 * too.
 */
int tally_check(const struct engine_options *options, struct reason *why);

/*
 * The groups that each trace of the dictionary counts for: group[first[i] … first[i + 1]). A trace
 * that is filtered out has none; with options->cumulative it has several, and one group may occur
 * repeatedly. key[group] is the group's name: frame, nframe and key are set, the rest is zero. The
 * order is arbitrary.
 */
struct groups {
	uint32_t *first; /* has trace_nr + 1 elements */
	uint32_t *group;
	struct statistic *key;
	size_t key_nr;
};

/* Errors as above. The caller keeps the dictionary as long as the result. groups_free() ends it. */
int groups_make(const struct snapshot *dictionary, const struct engine_options *options,
		struct groups **ret, struct reason *why);
void groups_free(struct groups *groups);

#endif
