/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_COMMON_SAMPLES_H
#define ALLOCSNAP_ENGINE_COMMON_SAMPLES_H

#include "engine/estimate.h"

/*
 * The blocks that two snapshots of one process have in common: blocks with the same address and
 * birth. There is a set of enum pair for each trace; NULL if common blocks cannot be identified.
 */
struct pairing {
	uint8_t *old_pairs, *new_pairs;
};

/*
 * The start of the last gap of either snapshot, on their clock; 0: there was none, or they are of
 * two processes.
 */
uint64_t pairing_gap_ns(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot);

/*
 * Pairs the selected traces. Errors as from snapshot_compare(); release the pairing after an error,
 * too.
 */
int pairing_find(struct pairing *pairing, const struct snapshot *old_snapshot,
		 const struct snapshot *new_snapshot, const struct engine_options *options,
		 struct reason *why);
void pairing_release(struct pairing *pairing);

/*
 * Whether a budget took samples between the two snapshots, as far as they tell: true if they are not of one recording.
 */
bool snapshots_thinned_between(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot);

#endif
