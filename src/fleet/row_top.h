/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_ROW_TOP_H
#define ALLOCSNAP_FLEET_ROW_TOP_H

/*
 * The rows of a snapshot with most bytes, and the sum of the others of each domain: its totals stay exact. The sum has a
 * traceback of its own, with one frame <other> in <other>.
 */

#include "fleet/row_codec.h"
#include "fleet/id_set.h"

#define ROW_OTHER_NAME "<other>" /* of the frame's function and file */

/* The loss that a snapshot has then: how many tracebacks became part of a sum. */
#define ROW_LOSS_MERGED "tracebacks_merged"

struct hash_id row_other_traceback(void);
struct hash_id row_other_frame(void);

struct row_top {
	size_t row_nr;		/* rows with most bytes; 0: all */
	const uint32_t *other;	/* of each origin: the origin of the sum that it becomes part of */
	struct fleet_rows rows; /* the result */
	uint32_t *order;
	size_t order_alloc;
};

/* Returns the rows to be used: *all if they are few. *ret_merged: how many of these are in sums. NULL: no memory. */
const struct fleet_rows *row_top_choose(struct row_top *top, const struct fleet_rows *all, uint64_t *ret_merged);
void row_top_release(struct row_top *top);

#endif
