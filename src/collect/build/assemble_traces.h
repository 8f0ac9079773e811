/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ASSEMBLE_TRACES_H
#define ALLOCSNAP_COLLECT_ASSEMBLE_TRACES_H

/* The blocks of one image → the traces of a snapshot, by two threads: there may be ten million. */

#include <stdbool.h>

#include "collect/drain/drained_blocks.h"
#include "collect/target/target.h"

struct snapshot_builder;

struct traces {
	const struct image_blocks *blocks;
	const struct target *target;
	struct snapshot_builder *builder;
	uint64_t first; /* of the builder's traces; there are as many as blocks */
	const uint32_t *traceback_id; /* the builder's, of target->traceback[i]; 0: not added yet */
	uint64_t sample_bytes; /* 0: every block was recorded */
	bool *is_wanted; /* of these, those that are not added and would be needed */
};

struct traces_sum {
	uint64_t bytes;
	double weight, weighted_bytes; /* that the traces stand for */
	uint64_t tracebacks_missing; /* not known to the target */
	bool is_incomplete; /* some are wanted: to be done again when they are added */
};

/* 0 or a negative errno. */
int set_traces(const struct traces *traces, struct traces_sum *ret);

#endif
