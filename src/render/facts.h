/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FACTS_H
#define ALLOCSNAP_RENDER_FACTS_H

/* The facts that `show` prints besides a snapshot's tables, in any format. */

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

/* Counts traces by how their tracebacks ended. If several members apply to a trace, it counts in the lowest. */
struct traceback_shares {
	uint64_t end[SNAP_END_NR]; /* how the walk ended, if unwind tables show it; [0] is unused */
	uint64_t ended;	      /* the walk found no further frame; that may be the stack's root */
	uint64_t caller_only; /* the same, with no frame except the allocator's caller */
	uint64_t limited;
	uint64_t broken;
	uint64_t none;
};

struct snapshot_facts {
	uint64_t samples;	/* traces */
	bool is_estimated;	/* blocks and current_bytes are estimates: each trace stands for several blocks */
	uint64_t blocks;
	uint64_t current_bytes; /* the sum of the blocks' sizes */
	bool has_peak;
	uint64_t peak_bytes;	/* 0 if it was not recorded; never less than current_bytes */
	struct traceback_shares shares;
};

struct snapshot_facts snapshot_facts(const struct snapshot *snapshot);

/* Returns the time from the recording's start to the snapshot, gaps included; 0: not known. */
uint64_t snapshot_recorded_ns(const struct snapshot *snapshot);

/* "23 gaps, 10.294 s together, 85.8 % of the recording"; also counts gaps that the file no longer has. */
#define GAPS_TEXT_MAX 128
const char *gaps_text(char text[GAPS_TEXT_MAX], const struct snapshot *snapshot);

/* The sampler in the process: "own", "preloaded", "injected", or "pools" of CPython; NULL: no sampler, or not known. */
const char *snapshot_sampler_kind(const struct snapshot *snapshot);

/* "one in 512 KiB", "one in 512 KiB by an injected sampler", or "" if the snapshot knows nothing of this. Returns text. */
#define RATE_TEXT_MAX 64
const char *rate_text(char text[RATE_TEXT_MAX], const struct snapshot *snapshot);

/* Returns the meaning of a counter or a loss, one line; NULL for a name that this version does not know. */
const char *counter_meaning(const char *name);

/* Also losses of 0. Returns 0 or -ENOMEM. The caller frees *ret; names are the snapshot's. */
struct report_loss;
int snapshot_losses(const struct snapshot *snapshot, struct report_loss **ret, size_t *ret_nr);

/* losses_line() on stderr, behind the name of the snapshot; also that there was no memory for it. */
void log_losses_line(const struct snapshot *snapshot, const char *name);

/* Whether the snapshot has a counter or loss of this name, even if it is 0. */
bool snapshot_has_counter(const struct snapshot *snapshot, const char *name);

/* Whether any function or line of source is known. */
bool snapshot_has_names(const struct snapshot *snapshot);

/* ---- RSS ---- */

/*
 * The parts of a process's resident memory (RSS), from a snapshot's metadata. The parts add up to RSS exactly. Only
 * blocks of heaps are traced memory here: blocks of mappings contain other blocks or count elsewhere, and blocks of
 * pools lie in heap blocks, unless the pool wraps the heap.
 */

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
 * Whether live blocks of one domain lie in blocks of another, so that a total counts memory twice: mappings that an
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
