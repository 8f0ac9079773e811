/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_SERIES_H
#define ALLOCSNAP_TOP_SERIES_H

/*
 * The snapshots of one process, oldest first: of files, or of a recording that goes on. Of the latter a few are kept,
 * about evenly in time; the files of the others are removed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/leak_report.h"

#define SERIES_MOST 12	/* snapshots that are kept */

struct series_point {
	char *path;
	uint64_t now_ns;
};

/* Zeroed: an empty one. A series of files is made by its owner: only `recording` is set. */
struct top_series {
	struct leak_recording recording;
	struct series_point *point;
	size_t point_nr, point_alloc;
	uint64_t *now_ns; /* the times of the points, for recording.times */
	uint64_t clears, execs; /* of the last snapshot */
};

/*
 * Adds a snapshot of a recording that goes on; its file is the series' to remove. Older snapshots are dropped if the
 * traces were cleared since, or if the process has called exec. Returns 0 or -ENOMEM.
 */
int top_series_add(struct top_series *series, const char *path, const struct snapshot *snapshot);

/* Number of the snapshot that growth is measured from: the newest one that is window_ns older than the last; or 0. */
uint32_t top_series_find_base(const struct top_series *series, uint64_t window_ns);

/* The path of the last snapshot; NULL: the series is one of files, or empty. */
const char *top_series_last_path(const struct top_series *series);

/* Removes the files of a recording that goes on. */
void top_series_remove(struct top_series *series);

#endif
