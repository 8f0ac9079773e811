/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_INDEX_H
#define ALLOCSNAP_FLEET_INDEX_H

/*
 * Brings the snapshots below directories into a catalogue. A file that was read before and has not changed since is
 * not read again, except a duplicate. A file that was written anew replaces its former content. If a snapshot's file
 * is gone, or holds another snapshot now, the snapshot is assigned to the file that holds it now. Files are indexed
 * in the byte order of their paths: first those that were written anew, then new ones, last the duplicates of earlier
 * runs. Some hundred files make one transaction. An indexing that is killed at any point and run again makes the same
 * catalogue as one run.
 */

#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct catalogue;

enum index_problem {
	INDEX_DAMAGED = 1, /* a snapshot that is incomplete, or of a later version */
	INDEX_FOREIGN,	   /* called .snap but no snapshot, or one without its host, process or time */
	INDEX_DUPLICATE,   /* the catalogue has a snapshot of that process and time already */
	INDEX_UNREADABLE,
};

struct index_events {
	/* Gets one line for each file that is not indexed; `what` is the member below. */
	void (*problem)(void *what, enum index_problem problem, const char *path, const char *line);
	/* Called now and then; may be NULL. */
	void (*progress)(void *what, uint64_t file_nr, uint64_t file_all);
	void *what;
};

struct index_sum {
	uint64_t snapshots; /* new ones */
	uint64_t rows;	    /* the rows of these snapshots */
	uint64_t known;	    /* files that an earlier run has read */
	uint64_t moved;	    /* snapshots that are in another file than before */
	uint64_t problems[INDEX_UNREADABLE + 1];
	uint64_t others; /* files that are not called .snap, or are not regular files */
	/* the symbolic links of these that are called .snap or lead to directories; they are not followed */
	uint64_t links;
	uint64_t gone;	 /* files of the catalogue below these directories that no longer exist; their snapshots stay */
};

/*
 * Checks that each path is a directory or a file called .snap; such a file is indexed as one in a directory would be.
 * fleet_index() makes the same check; this function serves a caller that has no catalogue yet.
 */
int fleet_index_check(const char *const *dir, size_t dir_nr, struct reason *why);

/* Returns 0, or the error that stopped it; what was committed stays. */
int fleet_index(struct catalogue *catalogue, const char *const *dir, size_t dir_nr,
		const struct index_events *events, struct index_sum *ret, struct reason *why);

#endif
