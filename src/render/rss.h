/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_RSS_H
#define ALLOCSNAP_RENDER_RSS_H

/*
 * What a process's resident memory (RSS) is made of, from a snapshot's metadata: parts that add up to
 * it exactly. Traced are the blocks of heaps: those of mappings hold blocks, or are counted
 * elsewhere, and those of pools lie in heap blocks, unless they wrap the heap.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct snapshot;

enum rss_part {
	RSS_PART_HEAP, /* all of it, traced and not; of RSS_PART_ANONYMOUS where that is told instead */
	RSS_PART_FILES,
	RSS_PART_SHARED,
	RSS_PART_STACKS,
	RSS_PART_OTHER,
	RSS_PART_NR,
};

struct rss_facts {
	bool is_known;
	bool is_close; /* else HEAP is all anonymous memory, and STACKS and OTHER are in it */
	uint64_t part[RSS_PART_NR];
	uint64_t total; /* their sum */
	uint64_t traced;	  /* bytes of heap blocks, resident or not */
	uint64_t traced_resident; /* of these, at most so many: what HEAP holds */
	uint64_t untraced;	  /* HEAP without these: older blocks, slack, other runtimes */
	uint64_t not_resident;	  /* of the traced, at least so many: never touched, or swapped out */
	uint64_t huge, swap;
	uint64_t age_ns; /* before the snapshot's time, where the process had ended; else 0 */
};

struct rss_facts rss_facts(const struct snapshot *snapshot);

const char *rss_part_name(enum rss_part part); /* "heap" */

#endif
