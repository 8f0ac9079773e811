/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TALLY_H
#define ALLOCSNAP_ENGINE_TALLY_H

#include "engine.h"
#include "engine/estimate.h"

/*
 * Questions to sums of many snapshots. The rows are the traces of one snapshot, the dictionary: each
 * says a traceback and a domain, once, and nothing of its size or age. What they cost stands beside them.
 *
 *	dictionary: trace 0, 1, 2 …	traceback, domain
 *	tally: cost[0, 1, 2 …]		what the snapshots have of it
 */
struct tally {
	const struct cost *cost; /* of each trace of the dictionary; count 0: it takes no part */
	const struct sums *sums; /* as many, where a snapshot was sampled; else NULL, and the costs are exact */
};

/*
 * snapshot_statistics() and snapshot_compare() of such sums: the same keys, filters, order, estimates
 * and errors. What a dictionary can't know (sizes, ages, threads, gaps; measures that are not live; the key
 * types process, size-class, age, thread) is -EINVAL with a line in *why. In a diff no sample
 * is taken to be in both.
 */
int tally_statistics(const struct snapshot *dictionary, const struct tally *tally,
		     const struct engine_options *options, struct statistics **ret, struct reason *why);
int tally_compare(const struct snapshot *dictionary, const struct tally *old_tally,
		  const struct tally *new_tally, const struct engine_options *options,
		  struct statistics **ret, struct reason *why);

/* Whether such a question can be asked of them: 0 or -EINVAL, as above. They check it, too. */
int tally_check(const struct engine_options *options, struct reason *why);

/*
 * The groups that each trace of the dictionary counts for: group[first[i] … first[i + 1]), none where it
 * is filtered out, several (also the same one again) where options->cumulative. What a group is called stands in
 * key[group]: frame, nframe and key of it, the rest zero. In no order.
 */
struct groups {
	uint32_t *first; /* trace_nr + 1 of them */
	uint32_t *group;
	struct statistic *key;
	size_t key_nr;
};

/* Errors as above. The dictionary must outlive the result. Ends with groups_free(). */
int groups_make(const struct snapshot *dictionary, const struct engine_options *options,
		struct groups **ret, struct reason *why);
void groups_free(struct groups *groups);

#endif
