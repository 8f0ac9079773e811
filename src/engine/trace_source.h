/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TRACE_SOURCE_H
#define ALLOCSNAP_ENGINE_TRACE_SOURCE_H

#include <stdbool.h>

#include "engine.h"
#include "engine/wrappers.h"
#include "snapshot.h"

/* A snapshot under options: where its tracebacks start. The caller keeps both. */
struct source {
	const struct snapshot *snapshot;
	const struct snapshot_tables *tables;
	const struct engine_options *options;
	uint64_t gap_ns;      /* blocks born before lived through a gap; 0: no gap */
	uint32_t *name_groups; /* by string id: the groups of wrappers of this name (engine/wrappers.h) */
	uint8_t *frame_role;  /* by frame id: enum frame_role */
	uint8_t *object_role; /* by object id, the same for the file */
	uint32_t *object_groups; /* by object id: the groups of wrappers of this file */
	uint32_t sampler_object; /* the file with the probes of the process's own sampler; 0: no such file */
	bool has_made_code; /* frames of named code that was made at run time */
	char *scratch;	      /* room for any string of the snapshot */
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

/* The role of a frame, by its function, its file and the options. */
enum frame_role source_role(struct source *source, uint32_t frame);

/* The frames from the first own one on: engine.h, "Own frames". */
struct frame_span source_frames(struct source *source, uint32_t traceback);

/* The same; of a Java object the frame that stands for its class, whose function is the name. */
struct frame_span source_object_frames(struct source *source, uint32_t traceback);

/* The time of the snapshot. 0, or -ENODATA with a line in *why: its blocks have no ages. */
int age_now(const struct snapshot *snapshot, uint64_t *ret_now_ns, struct reason *why);

/* The age of a block; a block that was born later has age 0. */
uint64_t age_of(const struct snapshot_tables *tables, uint64_t at, uint64_t now_ns);

#endif
