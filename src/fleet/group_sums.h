/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_GROUP_SUMS_H
#define ALLOCSNAP_FLEET_GROUP_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/tally.h"
#include "fleet/row_codec.h"

/*
 * Adds up bytes of snapshots by group: an array with a place for each group, and a list of the groups in use. So
 * clearing takes no longer than filling did. A zeroed struct has no sums, and can be released.
 */
struct group_sums {
	const struct groups *groups;
	struct group_sum *sum; /* by group */
	uint32_t *used;	       /* the groups that have bytes */
	size_t used_nr;
};

struct group_sum {
	int64_t size;  /* of the blocks, or of the samples */
	double beyond; /* what samples stand for in addition to their own size */
	bool is_used;
};

/* The groups must outlive the sums. Returns 0 or -ENOMEM. */
int group_sums_init(struct group_sums *sums, const struct groups *groups);
void group_sums_release(struct group_sums *sums);

/* Adds each row to its groups. Returns 0, or -ERANGE with a line in *why. */
int group_sums_add(struct group_sums *sums, const struct fleet_rows *rows, struct reason *why);

/* Returns a group's bytes, estimated if there are samples; at least 0. The error is -ERANGE. */
int group_sums_get(const struct group_sums *sums, uint32_t group, int64_t *ret_bytes,
		   struct reason *why);

/* Empties the sums, as they were after init. */
void group_sums_clear(struct group_sums *sums);

/* Compares groups by their keys: < 0, 0, > 0. */
int group_compare_keys(const struct groups *groups, uint32_t a, uint32_t b);

#endif
