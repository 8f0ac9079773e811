/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_INDEX_H
#define ALLOCSNAP_FLEET_INDEX_H

/*
 * Brings the snapshots below directories into a catalogue. What was looked at before and has not changed
 * since is not read again, but for duplicates; what was written anew takes the place of what it was. A snapshot
 * whose file is gone, or has become another one's, gets the file that it is in now. Files come in the order of
 * the bytes of their paths, those written anew first, duplicates of before last, some hundreds to a transaction: killed
 * at any point and run again, it makes the catalogue that one run would have made.
 */

#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct catalogue;

enum index_problem {
	INDEX_DAMAGED = 1, /* a snapshot, but not whole, or of a later version */
	INDEX_FOREIGN,	   /* called .snap and no snapshot, or one that says neither host, process nor time */
	INDEX_DUPLICATE,   /* of a process and time that is there already */
	INDEX_UNREADABLE,
};

struct index_events {
	/* One line for each file that is not indexed; what: as given. */
	void (*problem)(void *what, enum index_problem problem, const char *path, const char *line);
	/* Now and then; NULL: not wanted. */
	void (*progress)(void *what, uint64_t file_nr, uint64_t file_all);
	void *what;
};

struct index_sum {
	uint64_t snapshots; /* new ones */
	uint64_t rows;	    /* of these */
	uint64_t known;	    /* files that were looked at before */
	uint64_t moved;	    /* snapshots that are in another file than before */
	uint64_t problems[INDEX_UNREADABLE + 1];
	uint64_t others; /* files that are not called .snap, or no files */
	uint64_t links;	 /* of these: that are called so, or lead to directories; they are not followed */
	uint64_t gone;	 /* files of the catalogue below these directories that are there no more: what they had stays */
};

/*
 * Of each path, that it is a directory, or a file called .snap, which is indexed as one in a directory. fleet_index() asks
 * too; this is for who has no catalogue yet.
 */
int fleet_index_check(const char *const *dir, size_t dir_nr, struct reason *why);

/* 0, or what kept it from going on; what was committed stays. */
int fleet_index(struct catalogue *catalogue, const char *const *dir, size_t dir_nr,
		const struct index_events *events, struct index_sum *ret, struct reason *why);

#endif
