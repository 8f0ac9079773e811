/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PROCESS_LEAKS_H
#define ALLOCSNAP_FLEET_PROCESS_LEAKS_H

/*
 * Judges one process of a fleet by the files of its snapshots, as `allocsnap leaks` does (engine/leak_report.h): the
 * catalogue has no births. Of several recordings of the process the newest one counts.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/leak_report.h"
#include "fleet/catalogue.h"

/* Why not every verdict about a process is sure. */
enum fleet_unjudged {
	FLEET_JUDGED,
	FLEET_UNJUDGED_GAPS,	  /* frees in gaps were missed: what is sure in spite of it counts */
	FLEET_UNJUDGED_UNTRACED,  /* most growth of RSS is in no traced block */
	FLEET_UNJUDGED_SNAPSHOTS, /* fewer than four: births alone make at most LEAK_LIKELY */
	/* For these there are no verdicts at all. */
	FLEET_UNJUDGED_DROPPED, /* blocks found no room */
	FLEET_UNJUDGED_UNBORN,	/* births are not known */
	FLEET_UNJUDGED_UNTIMED, /* it is not known when the snapshots were taken, or when the recording began */
	FLEET_UNJUDGED_PARTS,	/* all snapshots were filtered */
	FLEET_UNJUDGED_GONE,	/* no file is left */
	FLEET_UNJUDGED_CHANGED, /* a file cannot be read, or is no longer what was indexed */
	FLEET_UNJUDGED_NR,
};

struct process_leaks_question {
	const struct fleet_snapshot *const *snapshot; /* of one process, in the order of the facts */
	size_t snapshot_nr;
	uint64_t last_ns; /* only the end of the recording; 0: all of it */
	const struct engine_options *engine; /* filters and wrappers count */
};

struct process_leaks {
	struct leaks *leaks; /* NULL: there are no verdicts at all */
	enum fleet_unjudged unjudged;
	size_t gone_nr; /* snapshots whose files are gone */
	struct reason why; /* FLEET_UNJUDGED_CHANGED: a line */
};

/* Returns 0 or -ENOMEM. process_leaks_release() ends *ret, also after an error. */
int process_leaks_find(const struct process_leaks_question *question, struct process_leaks *ret);
void process_leaks_release(struct process_leaks *process);

#endif
