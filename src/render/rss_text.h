/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_RSS_TEXT_H
#define ALLOCSNAP_RENDER_RSS_TEXT_H

/*
 * The parts of a process's resident memory (RSS), from a snapshot's metadata. The parts add up to RSS exactly. Only
 * blocks of heaps are traced memory here: blocks of mappings contain other blocks or count elsewhere, and blocks of
 * pools lie in heap blocks, unless the pool wraps the heap.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct snapshot;

enum rss_part {
	RSS_PART_HEAP, /* all heaps, traced or not; if !is_close, all anonymous memory */
	RSS_PART_FILES,
	RSS_PART_SHARED,
	RSS_PART_STACKS,
	RSS_PART_OTHER,
	RSS_PART_NR,
};

struct rss_facts {
	bool is_known;
	bool is_close; /* false: HEAP is all anonymous memory, with STACKS and OTHER in it */
	uint64_t part[RSS_PART_NR];
	uint64_t total; /* their sum */
	uint64_t traced;	  /* bytes of heap blocks, resident or not */
	uint64_t traced_resident; /* traced, but at most HEAP */
	uint64_t untraced;	  /* HEAP without traced_resident: older blocks, slack, other runtimes */
	uint64_t not_resident;	  /* at least so many traced bytes were never touched, or are swapped out */
	uint64_t huge, swap;
	uint64_t age_ns; /* if the process had ended: the time from reading RSS to the snapshot; otherwise 0 */
};

struct rss_facts rss_facts(const struct snapshot *snapshot);

/*
 * Whether live blocks of one domain lie in those of another, so that a total counts memory twice: mappings that an
 * allocator makes its heap of, and a custom allocator's blocks in blocks of the heap.
 */
bool domains_overlap(const struct snapshot *snapshot);

const char *rss_part_name(enum rss_part part); /* "heap" */

/* RSS of one process at two times, and how the traced blocks of its heaps grew. */
struct rss_change {
	bool is_known; /* of both, and they are of one process */
	uint64_t before, after;
	double traced;
};

struct rss_change rss_change_between(const struct snapshot *old, const struct snapshot *new);

#endif
