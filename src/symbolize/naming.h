/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLIZE_NAMING_H
#define ALLOCSNAP_SYMBOLIZE_NAMING_H

/*
 * Names for the frames of snapshots that were recorded without names, from the files of this
 * machine. An object is read if a file with the recorded build-id is at its path, or below a
 * directory of debug files. Snapshots and files are untrusted: a path's target is opened only if it
 * is a regular file, and a process without privileges reads ELF and DWARF (sandbox/client.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_replace.h"
#include "reason.h"

struct snapshot;

/* The caller keeps the descriptors, and keeps them open until naming__free(). */
struct naming_options {
	int root_fd; /* the directory that is the root of objects' paths */
	const int *debug_dir_fd; /* directories of debug files that are searched before /usr/lib/debug */
	size_t debug_dir_nr;
	const struct debug_fetcher *fetcher; /* for what is nowhere here; NULL: none */
	bool by_path; /* an object without a build-id is the file that is at its path now: nothing verifies that */
	uint64_t rows_max; /* limit for the rows of the new snapshot, which inlined calls increase; NAMING_ROWS_MAX */
};

#define NAMING_ROWS_MAX (1ull << 28) /* frames of all tracebacks; 1 GiB */
#define NAMING_OBJECTS_MAX 4096 /* limit for the objects that are searched, and open at a time, for one snapshot */

struct naming; /* each file is read once for all snapshots, even under several paths */

/* Forks a process, as sandbox__open() does. NULL and errno, with a line in *why. */
struct naming *naming__new(const struct naming_options *options, struct reason *why);
void naming__free(struct naming *naming); /* NULL is allowed */

/* Counts of rows in a snapshot's table of frames. */
struct naming_counts {
	uint64_t unnamed; /* rows that had neither function nor line */
	uint64_t named;	  /* unnamed rows that got a name */
	uint64_t lined;	  /* rows that had a function and got a line */
	uint64_t by_path;  /* rows of these that nothing verifies; the new snapshot counts them as a loss */
	uint64_t left_out; /* objects beyond NAMING_OBJECTS_MAX, which were not searched */
};

/*
 * Copies a snapshot and names its frames without a line from the files. A frame becomes one frame,
 * or several if calls were inlined there. Everything else stays, and so does a traceback that would
 * get more frames than the limit. *ret is NULL if the files say nothing new. 0 or a negative errno;
 * -EFBIG: there would be more rows than options.rows_max.
 */
int naming__snapshot(struct naming *naming, const struct snapshot *snapshot,
		     struct naming_counts *ret_counts, struct snapshot **ret);

/*
 * The next object whose file was needed but cannot be read, or not completely, or that has few
 * names. Each object is reported once; the number of objects with few names is limited.
 */
struct nameless {
	const char *path, *build_id; /* "": no build-id was recorded */
	const char *why;
	bool has_some;
};

bool naming__next_nameless(struct naming *naming, struct nameless *ret);

/* Inside naming: the file of an object of a snapshot. */

struct object_file {
	char *path, *build_id;
	uint32_t names; /* index for symbols__lookup(), or NAMES_NONE: no file was found */
	struct file_version stamp; /* of the file, if there are names */
	unsigned int snapshot; /* the snapshot for which it was searched last */
	bool is_told;
	bool is_doubted, is_stripped; /* frames without a name remained; the reason is that it is stripped */
	struct reason why;
};

struct naming {
	struct naming_options options;
	struct sandbox *sandbox;
	struct symbols *symbols;
	struct object_file *file;
	size_t file_nr, file_alloc;
	int *fd; /* by index for symbols__lookup(); -1: closed */
	size_t fd_nr, fd_alloc;
	unsigned int snapshot; /* number of the current snapshot */
	unsigned int stripped_nr; /* stripped files that were reported */
};

#endif
