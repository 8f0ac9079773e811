/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_CAVEATS_H
#define ALLOCSNAP_RENDER_CAVEATS_H

/* Warnings about an answer: why it may mislead. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "fleet/selection.h"

struct snapshot;

/* ---- of one snapshot: what gaps in the recording, and samples, mean for the answer ---- */

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

/* The same of blocks from before the hooks of `run --exact` were in. */
bool unseen_start_warning(const struct snapshot *snapshot, struct reason *ret);

/* Says how many of Java's objects are left out because they may be garbage. */
bool unjudged_java_warning(const struct snapshot *snapshot, struct reason *ret);

/*
 * Writes why growth from one snapshot to the other cannot be judged: for a time nothing was recorded between them
 * (snapshots_unrecorded()). Returns false if it can.
 */
bool unrecorded_reason(const struct snapshot *old_snapshot, const struct snapshot *new_snapshot, struct reason *ret);

#define KEPT_LINES_TEXT \
	"a Python object in reused free-list memory has the line of the first object, which may be wrong: record " \
	"by probes without --no-retag, or from Python 3.13 on with --inject=exact"

#define NAMELESS_TEXT \
	"rows FILE+0x… have no names, as the file is stripped: install its debug file (Debian: packages -dbgsym, -dbg), " \
	"then record anew, or 'allocsnap symbolize' the snapshots"

/* ---- of a difference ---- */

#define WARNINGS_MAX 24

struct warnings {
	struct reason text[WARNINGS_MAX];
	const char *line[WARNINGS_MAX];
	size_t nr;
};

struct comparison {
	const struct snapshot *old, *new;
	const struct statistics *diff;
	const struct engine_options *options; /* of the comparison */
	struct {
		const char *path; /* the first object of which the snapshot has no lines, and the other one has some */
		uint64_t place_nr; /* in such objects */
	} unnamed[2];
	struct cost *gap_blocks; /* of both snapshots: what may have been freed in a gap; set by the checks */
};

/*
 * Makes one line for each check that found something, in the order of the table; line points into
 * *ret. A hint, which begins with "hint: ", is only given if there is no warning.
 */
void compare_warnings(const struct comparison *comparison, struct warnings *ret);

/* ---- of sums over cohorts, or their difference ---- */

struct fleet_doubt {
	const struct fleet_facts *facts;
	const struct cohort *const *cohort; /* one, or two: [baseline, candidate] */
	size_t cohort_nr;
	const struct engine_options *engine;
	bool line_drift;
	uint64_t refused_nr; /* of struct dictionary */
	int64_t now_ns; /* since 1970 */
};

/* The same for these. Returns 0 or -ENOMEM. */
int fleet_doubts_find(const struct fleet_doubt *doubt, struct warnings *ret);

/* Whether the cohort leaves processes out: then there is a line in *ret. */
bool cohort_left_out(const struct cohort *cohort, struct reason *ret);

#endif
