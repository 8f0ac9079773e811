/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_MAP_SHARES_H
#define ALLOCSNAP_COLLECT_RECORDING_MAP_SHARES_H

/*
 * When several processes may be recorded, no process takes the room of the others: it may hold at most
 * SHARE_OF_FREE times as many blocks, notes of dropped blocks, tracebacks and leaves of pages as are free. The kernel side
 * compares at each insertion. The loader computes what is free here, as often as it reads the accounting.
 */

#include <stdint.h>

struct allocsnap_bpf;
struct accounts;
struct collector_options;
struct targets;

/*
 * Returns the most that one process may hold when all together hold `held` of `capacity`. It is never more than
 * the share of a process that is alone, because a process can insert much between two looks. It is never less
 * than a 64th, because `held` is not exact.
 */
uint64_t fair_most(uint64_t capacity, uint64_t held);

/* Before the programs are loaded. */
void fair_begin(struct allocsnap_bpf *bpf);

/*
 * Sets the limits from the accounting as it is now. Does nothing if only one process, or a list of PIDs, is
 * recorded.
 */
void fair_update(struct allocsnap_bpf *bpf, const struct targets *targets, const struct collector_options *options);

/* Records that nr tracebacks were taken out of the map. slot: ACCOUNT_NONE if their image has no slot any more. */
void fair_note_removed(struct allocsnap_bpf *bpf, struct accounts *accounts, uint32_t slot, uint64_t image, uint64_t nr);

/* The same of one leaf of pages. */
void fair_note_leaf_removed(struct allocsnap_bpf *bpf, const struct targets *targets, uint64_t image);

/* Before a drain: the blocks of images that are gone, which the drain will delete. health_swept(): after it. */
uint64_t health_stale_blocks(const struct allocsnap_bpf *bpf);
void health_swept(struct allocsnap_bpf *bpf, uint64_t stale_blocks);

#endif
