/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DOUBTS_H
#define ALLOCSNAP_DOUBTS_H

/* What gaps in the recording, and samples, mean for an answer. */

#include <stdbool.h>

#include "engine.h"

struct snapshot;

/*
 * The blocks of the answer that lived through a gap into *ret_blocks, and a line about them and about
 * what is missing; `which` begins it, "" or "the first snapshot: ". False where there was no gap.
 */
bool gap_warning(const struct snapshot *snapshot, const struct engine_options *options,
		 const char *which, struct cost *ret_blocks, struct reason *ret);

/* True with a line where what is asked for was estimated, nobody knows how well. */
bool measure_warning(const struct snapshot *snapshot, const struct engine_options *options,
		     struct reason *ret);

#endif
