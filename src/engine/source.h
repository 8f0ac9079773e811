/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_SOURCE_H
#define ALLOCSNAP_ENGINE_SOURCE_H

#include "engine.h"

/* A snapshot under options, which must both stay: where its tracebacks start. */
struct source {
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	const struct engine_options *options;
	uint64_t gap_ns;  /* what was born before lived through a gap; 0: there was none */
	uint8_t *wrapper; /* by string id: is a function so called? 0 until asked for */
};

/* Frames of a snapshot, most recent call first; never none. */
struct frame_span {
	const uint32_t *frame;
	uint32_t nframe;
};

/* 0 or -ENOMEM. */
int source_init(struct source *source, const struct snapshot *snapshot,
		const struct engine_options *options);
void source_release(struct source *source);

/* The frames after the wrappers. */
struct frame_span source_frames(struct source *source, uint32_t traceback);

#endif
