/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_SOURCE_H
#define ALLOCSNAP_ENGINE_SOURCE_H

#include "engine.h"

/* A snapshot under options: where its tracebacks start. The caller keeps both. */
struct source {
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	const struct engine_options *options;
	uint64_t gap_ns;  /* blocks born before lived through a gap; 0: there was none */
	uint8_t *wrapper; /* by string id: whether a function of this name is a wrapper; 0: not decided yet */
};

/* Frames of a snapshot, most recent call first; at least one. */
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
