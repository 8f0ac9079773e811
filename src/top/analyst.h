/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TOP_ANALYST_H
#define ALLOCSNAP_TOP_ANALYST_H

/*
 * Answers questions about a series of snapshots in a thread, so that the screen goes on. One question at a time: while
 * the thread runs, nothing else may use the analyst.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reason.h"
#include "top/answer.h"
#include "top/top_series.h"

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
	int err;
	struct top_answer *answer;
	struct reason why;
};

/* Returns 0 or a negative errno. Release it after a failure, too. */
int analyst_init(struct analyst *analyst);

/* Waits for the answer, and removes the series' temporary files. */
void analyst_release(struct analyst *analyst);

/* Forgets the series and its verdicts, for another process. Nothing may be running. */
void analyst_forget(struct analyst *analyst);

/*
 * Begins to answer. added: the path of a snapshot that is added to the series first, and is the series' then; NULL:
 * none. Returns 0 or a negative errno; then nothing runs.
 */
int analyst_ask(struct analyst *analyst, const struct top_question *question, const char *added);

/*
 * Waits for the answer. Returns 0 with the answer, which the caller frees, in *ret; or an error, with a line in
 * analyst->why.
 */
int analyst_wait(struct analyst *analyst, struct top_answer **ret);

#endif
