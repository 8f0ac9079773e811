/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROWS_H
#define ALLOCSNAP_FLEET_ROWS_H

/*
 * What the catalogue keeps of a snapshot's blocks: a row for each traceback and domain, and these
 * as a blob of columns, compressed.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/estimate.h"
#include "reason.h"

/* origin: a traceback and a domain, by its number in the catalogue (catalogue.h), from 0. */
struct fleet_row {
	uint32_t origin;
	struct cost cost; /* of the blocks; of a sampled snapshot, of the samples themselves */
};

struct rows_scratch;

/* Ascending by origin, each at most once. A zeroed struct is empty and can be used again and again. */
struct fleet_rows {
	struct fleet_row *row;
	struct spread *spread; /* of each row, where the snapshot was sampled; else NULL */
	size_t nr, alloc, spread_alloc;
	struct spread *spread_room; /* what spread points to, kept where it is NULL */
	struct rows_scratch *scratch; /* of rows.c */
};

/* Room for nr rows, and makes spread NULL or not. 0 or -ENOMEM. */
int fleet_rows_reserve(struct fleet_rows *rows, size_t nr, bool is_sampled);

void fleet_rows_release(struct fleet_rows *rows);

/* The blob, in memory that the caller frees with free(). 0 or -ENOMEM. */
int fleet_rows_encode(struct fleet_rows *rows, void **ret_bytes, size_t *ret_len);

/*
 * Into rows, in place of what was there. 0, -ENOMEM, or -EBADMSG with a line in *why: it is no blob, an origin is
 * origin_nr or more, or they do not ascend; costs are at least 0.
 */
int fleet_rows_decode(const void *bytes, size_t len, uint32_t origin_nr, struct fleet_rows *rows,
		      struct reason *why);

#endif
