/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_PROCESS_LINES_H
#define ALLOCSNAP_FLEET_PROCESS_LINES_H

/*
 * Judges one process of a fleet by the files of its snapshots, as `allocsnap leaks` does (engine/leak_report.h): the
 * catalogue has no births. Of several recordings of the process the newest one counts. The verdicts are by the
 * catalogue's groups, and need its snapshots no more.
 */

#include <stddef.h>
#include <stdint.h>

#include "engine/leak_report.h"
#include "engine/leak_runtime.h"
#include "fleet/catalogue.h"
#include "fleet/id_set.h"

/* Why not every verdict about a process is sure. */
enum fleet_unjudged {
	FLEET_JUDGED,
	FLEET_UNJUDGED_GAPS,	  /* frees in gaps were missed: what is sure in spite of it counts */
	FLEET_UNJUDGED_UNTRACED,  /* most growth of RSS is in no traced block */
	FLEET_UNJUDGED_SAMPLES,	  /* most growth of RSS is in no sample, and there are few of them */
	FLEET_UNJUDGED_SNAPSHOTS, /* fewer than four: births alone make at most LEAK_LIKELY */
	FLEET_UNJUDGED_PAGES,	  /* resident pages show what grew, and not who keeps it */
	FLEET_UNJUDGED_GARBAGE,	  /* Go has hardly collected garbage */
	/* For these there are no verdicts at all. */
	FLEET_UNJUDGED_DROPPED, /* blocks found no room */
	FLEET_UNJUDGED_UNBORN,	/* births are not known */
	FLEET_UNJUDGED_DOUBTED, /* the process's own sampler is wrong */
	FLEET_UNJUDGED_UNCOLLECTED, /* Java has collected its whole heap too seldom */
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

/* The group of each traceback in the catalogue. A zeroed struct is empty. */
struct line_groups {
	struct known group; /* by traceback_id; number: the group */
};

/* The verdict about a line in one process. */
struct line_verdict {
	const struct fleet_snapshot *snapshot; /* of the process */
	struct leak_verdict verdict;
	struct leak_window window; /* without its arrays */
	uint32_t summed; /* so many tracebacks were judged as one; 0: each by itself */
	struct leak_place place; /* of lines that leak, may or grow: the first callers, with names of its own */
	uint32_t common; /* the frame that the lines that leak together share, as in struct leak_bundle */
};

struct process_line {
	uint32_t group; /* several lines of a process may have one */
	uint32_t together; /* the least group of the lines that leak together with it, its own included */
	unsigned int hints; /* about it (engine/leak_runtime.h), if it leaks, may or grows: bits */
	struct line_verdict verdict;
};

struct process_lines {
	struct process_line *line;
	size_t line_nr;
	enum fleet_unjudged unjudged;
	struct untraced_growth untraced; /* FLEET_UNJUDGED_UNTRACED; the name is its own */
	struct leak_blind blind; /* span_ns 0: it was not judged; the text is its own */
	size_t gone_nr; /* snapshots whose files are gone */
	struct reason why; /* FLEET_UNJUDGED_CHANGED: a line */
};

/*
 * Returns 0 or -ENOMEM. process_lines_release() ends *ret, also after an error. Threads may do this at the same time.
 */
int process_lines_find(const struct process_leaks_question *question, const struct line_groups *groups,
		       struct process_lines *ret);
void process_lines_release(struct process_lines *lines);

#endif
