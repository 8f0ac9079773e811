/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_JUDGE_H
#define ALLOCSNAP_ENGINE_LEAK_JUDGE_H

/*
 * Judges whether the blocks of one traceback leak, by when the live ones were born. A recording sees no older blocks,
 * so everything grows at first, and growth says little. Births say more. A leak keeps about the same
 * number of blocks from each minute. A cache has none of its oldest blocks left. A warm-up has only its oldest.
 *
 * The rule: find the least age H from which on hardly any block was seen to be freed. The blocks that are live and
 * older than H are the survivors. If they were born all along, until now, the traceback leaks, at the rate of their
 * births. docs/leaks.md explains it. Times are nanoseconds since the beginning of what is observed; the last snapshot
 * is at its end. All comparisons are exact.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEAK_BINS 96		 /* of births, over the time observed */
#define LEAK_HORIZONS 11	 /* ages that are tried, at most */
#define LEAK_SNAPSHOTS_LEAST 4	 /* with fewer, only the births in the last one count */
#define LEAK_SURVIVORS_LEAST 3	 /* fewer are no evidence */
#define LEAK_SURVIVORS_SURE 12	 /* fewer are no proof */
#define LEAK_PERIODS 8		 /* survivors must be born in most of them */

/* Ordered by what is shown first. Append only. */
enum leak_kind {
	LEAK_SURE,    /* leaks */
	LEAK_LIKELY,  /* may leak */
	LEAK_GROWS,   /* one block, or a few, which are reallocated and larger each time */
	LEAK_YOUNG,   /* all survivors are from just now */
	LEAK_SETTLED, /* grew, and stopped */
	LEAK_FREED,   /* blocks of any age are freed */
	LEAK_GAPS,    /* gaps may have hidden more frees than there are survivors */
	LEAK_FEW,     /* too few blocks */
	LEAK_KIND_NR,
};

/* Why LEAK_LIKELY is not LEAK_SURE. */
enum leak_doubt {
	LEAK_DOUBT_FEW = 1,	  /* few survivors */
	LEAK_DOUBT_BURSTS = 2,	  /* survivors were born in few periods */
	LEAK_DOUBT_SLOWING = 4,	  /* fewer and fewer are born */
	LEAK_DOUBT_GAPS = 8,	  /* gaps may have hidden frees */
	LEAK_DOUBT_BATCH = 16,	  /* what was older went at once, and these may be the next */
	LEAK_DOUBT_SNAPSHOTS = 32, /* fewer than four snapshots */
};

struct leak_gap {
	uint64_t begin_ns, end_ns;
	uint64_t earlier_ns; /* the sum of all gaps before this one */
};

/* The time observed. */
struct leak_window {
	uint64_t span_ns; /* the time of the last snapshot; more than 0 */
	const uint64_t *snapshot_ns; /* ascending; the last one is span_ns */
	uint32_t snapshot_nr;
	const struct leak_gap *gap; /* ascending and apart, within 0 … span_ns */
	uint32_t gap_nr;
	uint64_t gaps_ns; /* their sum, or more if old gaps are not known one by one; at most span_ns */
	double late_share; /* of what the last snapshot says was allocated, the part that came while it was taken */
};

/* One live block of the last snapshot. In a sampled recording it stands for `weight` blocks; bytes has the weight. */
struct leak_block {
	uint64_t birth_ns;
	double bytes, weight;
};

/* A traceback's bytes and blocks from snapshot to snapshot. A zeroed struct is an empty one. */
struct leak_growth {
	double first_bytes, last_bytes, first_count, last_count, count_min, count_max;
	uint64_t first_ns;
	uint32_t ups;	 /* steps by more than 5 % */
	bool has_fallen, is_late; /* is_late: grew in the second half */
};

/* The sum of all snapshots for a traceback. A zeroed struct is an empty one. */
struct leak_history {
	uint64_t freed[LEAK_HORIZONS]; /* blocks seen to be freed at that age or later */
	uint64_t gone;		       /* at any age */
	uint64_t gone_most;	       /* most between two snapshots… */
	uint32_t gone_most_at;	       /* …of which this is the older one */
	struct leak_growth growth;
};

struct leak_evidence {
	const struct leak_block *block; /* ascending by birth_ns */
	size_t block_nr;
	const struct leak_history *history;
	double allocated, live; /* blocks */
};

struct leak_verdict {
	enum leak_kind kind;
	unsigned int doubts; /* enum leak_doubt */
	double bytes_per_s, blocks_per_s;
	double least_bytes_per_s; /* the lower end of a one-sided interval of 95 % */
	uint64_t since_ns; /* births of survivors: all but 2 % are later */
	uint64_t last_ns;  /* birth of the last survivor */
	uint64_t horizon_ns;
	uint64_t survivors, freed; /* blocks older than the horizon: live, and seen to be freed */
	uint64_t late, early;	   /* survivors of the second and the first half */
	uint32_t periods, span;	   /* periods in which survivors were born, of those since the first one */
	double bytes; /* of the survivors */
	double allocated, live;
	uint64_t gone; /* blocks seen to be freed, at any age */
	bool by_pools; /* what survives are pools of CPython, and what was allocated are objects, estimated */
	bool by_pages; /* they are resident pages: it is LEAK_GROWS in place of LEAK_SURE and LEAK_LIKELY */
};

/* Lines that may leak are shown among those that do: the most bytes a minute come first. Births alone are no such verdict. */
static inline int leak_rank(const struct leak_verdict *verdict)
{
	return verdict->kind == LEAK_LIKELY && !(verdict->doubts & LEAK_DOUBT_SNAPSHOTS) ? LEAK_SURE : verdict->kind;
}

/* How long was recorded from begin_ns to end_ns. */
uint64_t leak_recorded_ns(const struct leak_window *window, uint64_t begin_ns, uint64_t end_ns);

/* The ages to try: multiples of the time between snapshots, up to two thirds of the time observed. Returns how many. */
uint32_t leak_horizons(const struct leak_window *window, uint64_t horizon_ns[LEAK_HORIZONS]);

/* Adds the traceback's sums in snapshot number `at`. */
void leak_growth_add(struct leak_growth *growth, const struct leak_window *window, uint32_t at, double bytes,
		     double count);

/* The least that a rate is with 95 % confidence, if it is measured by so many survivors of the second half. */
double leak_lower_bound(double rate, uint64_t blocks);

struct leak_verdict leak_judge(const struct leak_window *window, const struct leak_evidence *evidence);

#endif
