/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BUILD_BUILD_TRACEBACKS_H
#define ALLOCSNAP_COLLECT_BUILD_BUILD_TRACEBACKS_H

/* Converts the blocks of one image to the traces of a snapshot, with two threads: there may be ten million blocks. */

#include <stdbool.h>

#include "collect/drain/block_set.h"
#include "collect/target/tracebacks.h"

struct snapshot_builder;

struct traces {
	const struct image_blocks *blocks;
	const struct tracebacks *tracebacks;
	struct snapshot_builder *builder;
	uint64_t first; /* index of the first trace in the builder; there are as many as blocks */
	const uint32_t *traceback_id; /* the builder's id of tracebacks->traceback[i]; 0: not added yet */
	const uint64_t *sample_bytes; /* mean distance of samples by rate; 0: every block was recorded */
	bool *is_wanted; /* set for tracebacks that are needed but not added yet */
};

struct traces_sum {
	uint64_t bytes;
	double weight, weighted_bytes; /* estimated from the samples' weights */
	uint64_t tracebacks_missing; /* the target does not know the traceback */
	bool is_incomplete; /* some tracebacks are wanted: call again after they have been added */
};

/* 0 or a negative errno. */
int build_set_traces(const struct traces *traces, struct traces_sum *ret);

#endif
