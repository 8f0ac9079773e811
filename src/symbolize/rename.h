/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_RENAME_H
#define ALLOCSNAP_SYMBOLIZE_RENAME_H

/* Inside naming: copies a snapshot with other frames. */

#include <stdbool.h>
#include <stdint.h>

struct snapshot;
struct symbols;

struct renaming {
	const struct snapshot *from;
	struct symbols *symbols;
	const uint32_t *names; /* by object: index for symbols__lookup(), or NAMES_NONE */
	const bool *is_renamed;	/* by frame; the other frames stay as they are */
	uint64_t rows_max; /* limit for frames, and for the frames of tracebacks, unless there were more before */
};

/* 0 or a negative errno; -EFBIG: too many rows. */
int rename_frames(const struct renaming *renaming, struct snapshot **ret);

#endif
