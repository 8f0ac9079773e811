/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_LEAKS_H
#define ALLOCSNAP_FLEET_LEAKS_H

/*
 * Which lines of a fleet leak: each process is judged by its files (process_lines.h), on all processors, and what its
 * lines are is added up by the catalogue's groups, in the order of the processes. So memory depends on the lines and on
 * the largest processes, time on the processes: of each at most twelve files are read.
 *
 * Lines that leak together in nearly all processes are one leak of several blocks, and shown as a bundle.
 */

#include <stdbool.h>

#include "engine/tally.h"
#include "fleet/process_lines.h"
#include "fleet/selection.h"

/* groups: the catalogue's dictionary by line, unfiltered. traceback_id: of each origin. Returns 0 or -ENOMEM. */
int line_groups_make(const struct groups *groups, const int64_t *traceback_id, size_t origin_nr,
		     struct line_groups *ret);
void line_groups_release(struct line_groups *lines);

struct fleet_leaks_question {
	const struct cohort *cohort;
	const struct groups *groups;
	const struct line_groups *lines;
	const struct engine_options *engine; /* for the judge: its filters see the names of the files */
	uint64_t last_ns; /* only the end of each recording; 0: all of it */
	unsigned int thread_nr; /* 0: one for each processor */
	/* Called often, by one thread at a time; NULL: not at all. */
	void (*progress)(void *what, uint64_t processes, uint64_t all);
	void *progress_what;
};

/* A line in all processes that have it. */
struct fleet_leak {
	uint32_t group; /* index in groups->key */
	/* The worst verdict of any process. Verdicts of rank LEAK_SURE count as one: the kind of the larger part. */
	enum leak_kind kind;
	int rank; /* leak_rank() */
	uint32_t hosts, processes; /* that have the line, and were judged */
	uint32_t kind_hosts, kind_processes; /* of these, those with this verdict; all that follows is about them */
	double bytes_per_s, least_bytes_per_s; /* of all together */
	double sure_bytes_per_s; /* of this, what is LEAK_SURE */
	uint64_t late; /* survivors that the rate is measured by */
	bool by_pools; /* of CPython: no least rate is known */
	struct line_verdict most; /* where it leaks most: surely, if it does so anywhere */
	unsigned int hints; /* about it in any of these processes (engine/leak_runtime.h): bits */
	uint32_t together; /* the group that stands for the lines that leak together with it; itself if it is alone */
	double together_bytes_per_s; /* of these lines */
};

/* Lines that leak together, or a single one. */
struct fleet_leak_bundle {
	size_t first, nr; /* in leaks->row */
	double bytes_per_s, least_bytes_per_s, sure_bytes_per_s;
	enum leak_kind kind; /* of the larger part */
};

/* Growth of RSS of which all the processes have the same to say. */
struct fleet_untraced {
	struct untraced_growth growth;
	uint32_t process_nr;
	const struct fleet_snapshot *most; /* of the process with the most bytes of it */
	double most_bytes;
};

struct fleet_leaks {
	struct fleet_leak *row; /* by bundle, then by rate, descending */
	size_t row_nr;
	struct fleet_leak_bundle *bundle; /* by rank, then by rate, descending */
	size_t bundle_nr;
	uint32_t kind_nr[LEAK_KIND_NR]; /* rows of each kind */
	uint32_t process_nr;
	uint32_t unjudged_nr[FLEET_UNJUDGED_NR]; /* processes, by why; FLEET_JUDGED: those that were judged */
	const struct fleet_snapshot *unjudged[FLEET_UNJUDGED_NR]; /* of the first one */
	struct fleet_untraced *untraced; /* of those that are FLEET_UNJUDGED_UNTRACED, the most bytes first */
	size_t untraced_nr, untraced_alloc;
	size_t gone_nr; /* snapshots whose files are gone */
	struct leak_blind blind; /* of the process that could show least; the text is its own */
	struct reason why; /* of the first process that is FLEET_UNJUDGED_CHANGED */
};

/* Returns 0 or -ENOMEM. fleet_leaks_release() ends *ret. */
int fleet_find_leaks(const struct fleet_leaks_question *question, struct fleet_leaks *ret);
void fleet_leaks_release(struct fleet_leaks *leaks);

/* Processes that could not be judged, or not for sure. */
static inline uint32_t fleet_leaks_unjudged(const struct fleet_leaks *leaks)
{
	return leaks->process_nr - leaks->unjudged_nr[FLEET_JUDGED];
}

/* The rates of lines that surely leak, and the least rates of those that may. */
double fleet_leaks_limited_rate(const struct fleet_leaks *leaks);

#endif
