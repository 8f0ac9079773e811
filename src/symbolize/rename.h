/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_RENAME_H
#define ALLOCSNAP_SYMBOLIZE_RENAME_H

/* Copies a snapshot with other frames. */

#include <stdbool.h>
#include <stdint.h>

#include "symbols/symbols.h"

struct snapshot;

struct renaming {
	const struct snapshot *from;
	/*
	 * Stores the symbols that replace frame number `at`, the innermost inlined call first. Returns their number,
	 * or a negative errno. They are valid until the next call.
	 */
	int (*names_of)(const void *who, uint32_t at, struct symbol ret_symbol[SYMBOL_INLINE_MAX]);
	const void *who;
	const bool *is_renamed;	/* by frame; the other frames stay as they are */
	uint64_t by_path_nr; /* frames whose names nothing verifies: they are added to a loss of the copy */
	uint64_t rows_max; /* limit for frames, and for the frames of tracebacks, unless there were more before */
};

/* 0 or a negative errno; -EFBIG: too many rows. */
int rename_frames(const struct renaming *renaming, struct snapshot **ret);

#endif
