/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_ANALYST_H
#define ALLOCSNAP_TOP_ANALYST_H

/*
 * Answers questions about a series of snapshots in a thread, so that the screen goes on. One question at a time: while
 * the thread runs, nothing else may use the analyst.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "engine/leak_report.h"
#include "top/answer.h"

/*
 * The snapshots of one process, oldest first: of files, or of a recording that goes on. Of the latter a few are kept,
 * about evenly in time; the files of the others are removed.
 */

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

/* Growth is measured over this time, if the series is that long. */
#define TOP_WINDOW_NS (60 * UINT64_C(1000000000))

struct analyst {
	struct top_series series;
	bool has_whole_window; /* growth since the first snapshot, not since TOP_WINDOW_NS ago */
	struct snapshot *newest;
	struct leaks *leaks;	/* the last verdicts; NULL: none yet */
	uint64_t judged_ns, judge_took_ns;
	char *unjudgeable; /* why there are no verdicts; NULL: nothing is against them */

	/* The question that is being answered. */
	struct top_question question;
	char *added, *open; /* a snapshot to add first; the opened row; NULL: none */
	pthread_t thread;
	bool is_running;
	int event_fd; /* becomes readable when the answer is there */
	bool has_ended; /* the same, if that failed; other threads read it with acquire order */
	int err;
	struct top_answer *answer;
	struct reason why;
};

/* Returns 0 or a negative errno. Release it after a failure, too. */
int analyst_init(struct analyst *analyst);

/* Waits for the answer to a question that is under way, and drops it. */
void analyst_stop(struct analyst *analyst);

/* The same, and removes the series' temporary files. */
void analyst_release(struct analyst *analyst);

/* Forgets the series and its verdicts, for another process. Nothing may be running. */
void analyst_forget(struct analyst *analyst);

/*
 * Begins to answer. added: the path of a snapshot that is added to the series first, and is the series' then; NULL:
 * none. Returns 0 or a negative errno; then nothing runs.
 */
int analyst_ask(struct analyst *analyst, const struct top_question *question, const char *added);

/* Whether analyst_wait() would return at once. */
bool analyst_has_ended(const struct analyst *analyst);

/*
 * Waits for the answer. Returns 0 with the answer, which the caller frees, in *ret; or an error, with a line in
 * analyst->why.
 */
int analyst_wait(struct analyst *analyst, struct top_answer **ret);

#endif
