/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_CODEC_H
#define ALLOCSNAP_FLEET_ROW_CODEC_H

/*
 * The catalogue's form of a snapshot's blocks: a row for each traceback and domain, stored as a compressed blob of
 * columns.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/estimate.h"
#include "reason.h"

/* origin: the catalogue's number of a traceback and domain (catalogue.h), from 0. */
struct fleet_row {
	uint32_t origin;
	struct cost cost; /* of the blocks; in a sampled snapshot, of the samples themselves */
};

struct rows_scratch;

/* Rows ascend by origin, each origin at most once. A zeroed struct is empty. The struct can be used again and again. */
struct fleet_rows {
	struct fleet_row *row;
	struct spread *spread; /* of each row if the snapshot was sampled; otherwise NULL */
	size_t nr, alloc, spread_alloc;
	struct spread *spread_room; /* the memory of spread, kept while spread is NULL */
	struct rows_scratch *scratch; /* private to row_codec.c */
};

/* Makes room for nr rows, and sets spread: NULL if the rows are not sampled. Returns 0 or -ENOMEM. */
int fleet_rows_reserve(struct fleet_rows *rows, size_t nr, bool is_sampled);

void fleet_rows_release(struct fleet_rows *rows);

/* Encodes the rows as a blob, which the caller frees with free(). Returns 0 or -ENOMEM. */
int fleet_rows_encode(struct fleet_rows *rows, void **ret_bytes, size_t *ret_len);

/*
 * Replaces the rows by the rows of a blob. Returns 0, -ENOMEM, or -EBADMSG with a line in *why: the bytes are no blob,
 * an origin is origin_nr or more, or origins do not ascend. Costs are at least 0.
 */
int fleet_rows_decode(const void *bytes, size_t len, uint32_t origin_nr, struct fleet_rows *rows,
		      struct reason *why);

#endif
