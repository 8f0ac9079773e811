/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_CONTENT_ID_H
#define ALLOCSNAP_FLEET_CONTENT_ID_H

/*
 * Adds up a snapshot's blocks by traceback and domain, and makes the ids of tracebacks and frames. Ids are hashes of
 * content, so that they are the same in every file and catalogue:
 *
 *	string		its bytes
 *	frame		hashes of filename, function, object's path and build-id; offset (none outside of a file),
 *			lineno, flags, first line
 *	traceback	hashes of its frames, most recent call first
 *
 * One digest serves many files, one after another, and keeps its memory.
 */

#include <stdbool.h>

#include "base/idmap.h"
#include "engine/trace_cost.h"
#include "fleet/id_set.h"
#include "reason.h"
#include "snapshot.h"

struct digest_row {
	uint32_t traceback; /* in the snapshot */
	uint32_t domain;    /* in digest->domain */
	struct hash_id id;  /* of the traceback */
	struct cost cost;
};

struct digest {
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	struct digest_row *row; /* ordered by the first trace of each */
	size_t row_nr, row_alloc;
	struct sums *sums; /* of each row, if is_sampled */
	size_t sums_alloc;
	bool is_sampled;
	struct cost total; /* unbiased */
	uint32_t *domain;  /* the snapshot's domain numbers, in the order in which traces have them */
	size_t domain_nr, domain_alloc;

	/* of `domain` */
	struct idmap domain_ids;
	uint32_t *slot; /* rows + 1, by a hash of traceback and domain */
	size_t slot_nr;
	struct hash_id *string, *frame; /* id 0: not made yet */
	size_t string_alloc, frame_alloc;
	struct hash_id *gathered; /* the frame ids of one traceback */
	size_t gathered_alloc;
};

/* Returns 0, -ENOMEM, or -ERANGE with a line. The snapshot must stay open while the digest is used. */
int digest_add_up(struct digest *digest, const struct snapshot *snapshot, struct reason *why);
void digest_release(struct digest *digest);

/* The same without rows: for ids alone. Returns 0 or -ENOMEM. */
int digest_begin(struct digest *digest, const struct snapshot *snapshot);

/* The id of a traceback of the snapshot. Returns 0 or -ENOMEM. */
int digest_traceback_id(struct digest *digest, uint32_t traceback, struct hash_id *ret);

struct hash_id digest_frame_id(struct digest *digest, uint32_t frame);

/* Returns the line where the frame's function begins; 0: not known. */
uint32_t digest_first_line(const struct snapshot_tables *tables, uint32_t frame);

#endif
