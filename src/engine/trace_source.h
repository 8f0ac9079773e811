/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_TRACE_SOURCE_H
#define ALLOCSNAP_ENGINE_TRACE_SOURCE_H

#include <stdbool.h>

#include "engine.h"
#include "snapshot.h"

/*
 * Whether the function belongs to an allocator, so that its caller requested the memory. These are
 * malloc and related functions of the C library, jemalloc, tcmalloc and mimalloc; the global
 * operator new, demangled or not; and functions that match a `skip` pattern. NULL, an unknown
 * function, never does. Neither do a class's own operator new and std::allocator: they are C++ code
 * that calls an allocator, and a user can skip them.
 */
bool function_is_wrapper(const char *function, const struct engine_options *options);

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

/* The time of the snapshot. 0, or -ENODATA with a line in *why: its blocks have no ages. */
int age_now(const struct snapshot *snapshot, uint64_t *ret_now_ns, struct reason *why);

/* The age of a block; a block that was born later has age 0. */
uint64_t age_of(const struct snapshot_tables *tables, uint64_t at, uint64_t now_ns);

#endif
