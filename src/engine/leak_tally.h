/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_LEAK_TALLY_H
#define ALLOCSNAP_ENGINE_LEAK_TALLY_H

/*
 * Counts what the snapshots of a recording say of each site, in one pass over them, oldest first. Which block is which
 * is not asked: of each bin of births, what one snapshot has less than the one before was freed in between. So compact
 * files will do.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "engine.h"
#include "engine/leak_judge.h"

struct snapshot;

/*
 * Where blocks are allocated, the same in all snapshots of a recording: a site is a traceback and a domain of the last
 * snapshot. Tracebacks are the same if they return to the same places of the same files, whether or not these places
 * have names yet. Places without a file are the same if their names are.
 */

struct leak_site_key {
	uint32_t traceback; /* of the last snapshot; the first of equal ones */
	uint32_t domain;
};

struct leak_sites {
	const struct snapshot *last; /* the caller keeps it */
	struct idmap frame_ids, traceback_ids, site_ids;
	uint32_t *traceback; /* by traceback id of the last snapshot: the first equal one */
	struct leak_site_key *site;
	size_t site_nr, site_alloc;
};

/* The blocks of one snapshot by site and bin of births: as large as the snapshot, however many sites there are. */

/* A zeroed struct is an empty one. */
struct leak_births {
	uint64_t *key; /* of each block: site × LEAK_BINS + bin */
	size_t key_nr, key_alloc;
};

/* 0 or -ENOMEM. */
int leak_births_add(struct leak_births *births, uint32_t site, uint32_t bin);

/* Sorts the keys. Returns 0 or -ENOMEM. */
int leak_births_sort(struct leak_births *births);

/* Counts blocks with this key, from *at on, which moves behind them. Of sorted births, keys ascending. */
uint64_t leak_births_count(const struct leak_births *births, uint64_t key, size_t *at);

void leak_births_release(struct leak_births *births);

/* The snapshots of a recording: times of CLOCK_MONOTONIC, ascending. */
struct leak_times {
	uint64_t begin_ns; /* of what is observed */
	bool is_part;	   /* the recording began earlier: blocks from before begin_ns do not count */
	const uint64_t *now_ns;
	uint32_t snapshot_nr;
};

struct leak_tally {
	const struct snapshot *last;
	const struct leak_times *times;
	const struct engine_options *options; /* filters count, and nothing else */
	struct leak_window window;
	struct leak_sites sites;
	struct leak_births now, before; /* of the snapshot that is read, and of the one before it */
	struct leak_history *history; /* by site, as all that follow */
	double *bytes, *count;	      /* in the snapshot that was read last */
	double *older_count;	      /* the same, of blocks from before what is observed */
	uint32_t *site_of;	      /* by trace of the last snapshot; LEAK_SITE_NONE: does not count */
	uint64_t *order, *first;      /* the last snapshot's traces by site: order[first[site] … first[site + 1]) */
	double *allocated;	      /* blocks, by traceback of the last snapshot; 0: not known */
	uint64_t unborn;	      /* blocks of the last snapshot whose birth is not known */
	uint64_t bin_end_ns[LEAK_BINS];
	uint64_t *snapshot_ns;	      /* memory of the window */
	struct leak_gap *gap;
	struct leak_block *block; /* room for the evidence */
	size_t block_alloc;
};

/*
 * last: the last snapshot, which the caller keeps, as all else. Returns 0, -ENOMEM, or with a line in *why -ENODATA
 * (no births), or what the filters return. Release the tally after an error, too.
 */
int leak_tally_init(struct leak_tally *tally, const struct snapshot *last, const struct leak_times *times,
		    const struct engine_options *options, struct reason *why);
void leak_tally_release(struct leak_tally *tally);

/* Adds snapshot number `at`. All must be added, in their order, also the last. */
int leak_tally_add(struct leak_tally *tally, uint32_t at, const struct snapshot *snapshot, struct reason *why);

/* Judges some sites as one, after all snapshots were added. Returns 0 or -ENOMEM. */
int leak_tally_judge(struct leak_tally *tally, const uint32_t *site, size_t nr, struct leak_verdict *ret);

/* Live bytes of a site in the last snapshot less those in the first, after all snapshots were added. */
double leak_tally_growth(const struct leak_tally *tally, uint32_t site);

/* Adds the survivors of a judged site to the sixteenths of the time observed in which they were born. */
void leak_tally_births(const struct leak_tally *tally, uint32_t site, const struct leak_verdict *verdict,
		       uint64_t sixteenth[16]);

#endif
