/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_STALE_H
#define ALLOCSNAP_COLLECT_SESSION_STALE_H

/*
 * How much room the data of ended images takes. Only a drain frees it; collector__is_drain_due() says when.
 */

#include <stdint.h>

#include "collect/target/exited_totals.h"

struct allocsnap_bpf;

/* Totals of processes that are gone or were never recorded. */
struct totals {
	struct gone gone;
	uint64_t not_admitted_nr, ever_refused_nr; /* at the last look; sum of the increases from look to look */
	uint64_t small_nr;    /* in system-wide mode: processes that ended too small to report */
	uint64_t unprobed_nr; /* processes that ended before their mappings could be read */
	uint64_t python_noted_nr; /* processes of which a note says why their Python is not recorded */
};

/* Before a drain: the blocks of images that are gone, which the drain will delete. */
uint64_t health_stale_blocks(const struct allocsnap_bpf *bpf);

/* After that drain. */
void health_swept(struct allocsnap_bpf *bpf, uint64_t stale_blocks);

#endif
