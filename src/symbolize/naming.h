/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_NAMING_H
#define ALLOCSNAP_NAMING_H

/*
 * Names for the frames of snapshots that were recorded without, from the files that are here: an
 * object is read where one with the recorded build-id lies at its path, or below a directory of debug
 * files. Snapshots come from anywhere, and so do the files: what a path leads to is opened only if it
 * is a regular file, and ELF and DWARF are read by a process without privileges (sandbox/parser.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reason.h"

struct snapshot;

/* The descriptors stay the caller's, and open until naming__free(). */
struct naming_options {
	int root_fd; /* the directory that objects' paths begin in */
	const int *debug_dir_fd; /* where debug files are looked for before /usr/lib/debug */
	size_t debug_dir_nr;
	uint64_t rows_max; /* that inlined calls may have a snapshot grow to; NAMING_ROWS_MAX */
};

#define NAMING_ROWS_MAX (1ull << 28) /* frames of all tracebacks; 1 GiB */

#define NAMING_OBJECTS_MAX 4096 /* looked for, and open at a time, for one snapshot */

struct naming; /* each file is read once, for all snapshots and whatever paths they have for it */

/* Forks, as parser__open(). NULL and errno, with a line in *why. */
struct naming *naming__new(const struct naming_options *options, struct reason *why);
void naming__free(struct naming *naming); /* NULL is allowed */

/* Rows of a snapshot's table of frames. */
struct naming_counts {
	uint64_t unnamed; /* that had neither function nor line */
	uint64_t named;	  /* of these */
	uint64_t lined;	  /* that had a function and have a line, too, now */
	uint64_t left_out; /* objects that were not looked for: more than NAMING_OBJECTS_MAX */
};

/*
 * A copy of a snapshot in which frames without a line are what the files say of them: one, or several
 * where calls were inlined. All else stays, and so does a traceback that would have more frames than
 * one may. NULL in *ret where they say nothing new. 0 or a negative errno; -EFBIG: there would be
 * more rows than options.rows_max.
 */
int naming__snapshot(struct naming *naming, const struct snapshot *snapshot,
		     struct naming_counts *ret_counts, struct snapshot **ret);

/*
 * An object that was wanted and can't be read, or not to its end, or one that was and has few names, of which only
 * some are told; each is told once.
 */
struct nameless {
	const char *path, *build_id; /* "": none was recorded */
	const char *why;
	bool has_some;
};

bool naming__next_nameless(struct naming *naming, struct nameless *ret);

#endif
