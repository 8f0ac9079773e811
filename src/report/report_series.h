/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_REPORT_SERIES_H
#define ALLOCSNAP_REPORT_SERIES_H

/* The snapshots of a report: which of the files, and in which order. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/moment.h"
#include "reason.h"

#define SERIES_MAX 120 /* more points than this show no more on a page */

struct snapshot;

/* A file, and what is known of it before its blocks are read. */
struct series_item {
	struct moment moment;
	char *path;
	char *process; /* what all snapshots of one process have in common */
	uint64_t begin_ns; /* of the recording, by the monotonic clock */
	bool is_timed; /* it was taken at a fixed time, and not for an event */
};

struct series {
	struct series_item *item;
	size_t item_nr, item_alloc;
	size_t given_nr; /* before they were thinned out */
};

/* Copies the path. 0 or -ENOMEM. */
int series_add(struct series *series, const char *path, const struct snapshot *snapshot);
void report_series_release(struct series *series);

/* Whether all are of one process. */
bool series_is_one_process(const struct series *series);

/* By time. 0 or -ENOMEM. */
int series_sort(struct series *series);

/*
 * Leaves at most `most` (2 or more): the first, the last, those taken for an event, and of the others as many as there
 * is room for, evenly. If there are too many events, they are thinned out evenly, too. 0 or -ENOMEM.
 */
int series_thin(struct series *series, size_t most);

#endif
