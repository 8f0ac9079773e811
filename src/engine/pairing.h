/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_PAIRING_H
#define ALLOCSNAP_ENGINE_PAIRING_H

#include "engine/estimate.h"

/*
 * The blocks that two snapshots of one process both have: those of the same address and birth. Of
 * each trace a set of enum pair; NULL where none can be known to be in both.
 */
struct pairing {
	uint8_t *old_pairs, *new_pairs;
};

/* When the last gap of either began, on their clock; 0: there was none, or they are two processes'. */
uint64_t pairing_gap_ns(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot);

/* Of traces that the options select. Errors as in snapshot_compare(); release it also then. */
int pairing_find(struct pairing *pairing, const struct snapshot *old_snapshot,
		 const struct snapshot *new_snapshot, const struct engine_options *options,
		 struct reason *why);
void pairing_release(struct pairing *pairing);

#endif
