/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_STALE_H
#define ALLOCSNAP_COLLECT_SESSION_STALE_H

/*
 * How much room the data of ended images takes. Only a drain frees it; collector__is_drain_due() says when.
 */

#include <stdint.h>

#include "collect/target/exited_totals.h"

struct allocsnap_bpf;
struct pass;

/* Totals of processes that are gone or were never recorded. */
struct totals {
	struct gone gone;
	uint64_t not_admitted_nr, ever_refused_nr; /* at the last look; sum of the increases from look to look */
	uint64_t small_nr;    /* in system-wide mode: processes that ended too small to report */
	uint64_t unprobed_nr; /* processes that ended before their mappings could be read */
	uint64_t python_noted_nr; /* processes of which a note says why their Python is not recorded */
};

/* The data of images that are gone. */
struct stale {
	uint64_t blocks, images;
};

/* Before a drain: the data that the drain will delete. */
struct stale health_stale(const struct allocsnap_bpf *bpf);

/* After that drain. */
void health_swept(struct allocsnap_bpf *bpf, struct pass *pass, const struct stale *stale);

#endif
