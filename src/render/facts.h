/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_FACTS_H
#define ALLOCSNAP_RENDER_FACTS_H

/* What `show` says of a snapshot beside its tables, whatever the format. */

#include <stdbool.h>
#include <stdint.h>

#include "snapshot.h"

/* Traces by how their traceback ended; the first that is true, from below. */
struct traceback_shares {
	uint64_t end[SNAP_END_NR]; /* by tables: how; [0] is none of these */
	uint64_t ended;	      /* the walk found no further frame; that may be the stack's root */
	uint64_t caller_only; /* the same, and there is no frame but the allocator's caller */
	uint64_t limited;
	uint64_t broken;
	uint64_t none;
};

struct snapshot_facts {
	uint64_t samples;	/* traces */
	bool is_estimated;	/* the two below: each trace stands for several blocks */
	uint64_t blocks;
	uint64_t current_bytes; /* the sum of the blocks' sizes */
	bool has_peak;
	uint64_t peak_bytes;	/* if it was recorded; never less than current_bytes */
	struct traceback_shares shares;
};

struct snapshot_facts snapshot_facts(const struct snapshot *snapshot);

/* What trace number `at` stands for, beside itself, in bytes. */
double bytes_beyond(const struct snapshot_tables *tables, uint64_t at);

/* The sum of samples and what they stand for beside themselves; at most UINT64_MAX. */
uint64_t with_beyond(uint64_t samples, double beyond);

/* "23 gaps, 10.294 s together, 85.8 % of the recording", also of those that the file no longer has. */
#define GAPS_TEXT_MAX 128
const char *gaps_text(char text[GAPS_TEXT_MAX], const struct snapshot *snapshot);

/* "one in 512 KiB", or "" where the snapshot does not say. Returns text. */
#define RATE_TEXT_MAX 64
const char *rate_text(char text[RATE_TEXT_MAX], const struct snapshot *snapshot);

/* What a counter or a loss means, one line; NULL for a name that this version does not know. */
const char *counter_meaning(const char *name);

/* Whether the snapshot has a counter or loss of this name, if only to say 0. */
bool has_counter(const struct snapshot *snapshot, const char *name);

#endif
