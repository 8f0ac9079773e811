/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_CAVEATS_H
#define ALLOCSNAP_RENDER_CAVEATS_H

/* Warnings about an answer: what gaps in the recording, and samples, mean for it. */

#include <stdbool.h>

#include "engine.h"

struct snapshot;

/*
 * Finds the blocks of the answer that lived through a gap (*ret_blocks), and makes a line about them and about what
 * is missing. `which` begins the line: "" or "the first snapshot: ". Returns false if there was no gap.
 */
bool gap_warning(const struct snapshot *snapshot, const struct engine_options *options,
		 const char *which, struct cost *ret_blocks, struct reason *ret);

/* Returns true, with a line, if the measure is an estimate whose error is not known. */
bool measure_warning(const struct snapshot *snapshot, const struct engine_options *options,
		     struct reason *ret);

/* Returns true, with a line, if the process has a heap that no probe sees: it is in no row. */
bool unseen_heap_warning(const struct snapshot *snapshot, struct reason *ret);

/*
 * Writes why growth from one snapshot to the other cannot be judged: for a time nothing was recorded between them
 * (snapshots_unrecorded()). Returns false if it can.
 */
bool unrecorded_reason(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot, struct reason *ret);

#define KEPT_LINES_TEXT \
	"a Python object in memory of a free list has the line of the first object there, which may be innocent: record " \
	"without --no-retag"

#endif
