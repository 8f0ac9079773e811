/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DEBUGINFOD_CACHE_H
#define ALLOCSNAP_DEBUGINFOD_CACHE_H

/*
 * The files that debuginfod servers have sent: FOLDER/BUILD-ID/debuginfo or …/executable, as libdebuginfod keeps them, in the
 * same folder. It may hold files that others have put there, so who reads one checks its build-id.
 */

#include "base/file_replace.h"

/*
 * Opens the folder, makes it if it is missing, and removes files that were not used for a week. -1, with a line in *why:
 * nothing is kept.
 */
int cache_open(struct reason *why);

/* A descriptor for reading; -1: the file is not there. */
int cache_find(int cache_fd, const char *build_id, const char *name);

/* A file that is coming. */
struct cache_place {
	int dir_fd;
	bool is_kept;
	struct atomic_file file;
};

#define CACHE_TEMPORARY "/var/tmp"

/* cache_fd -1: the file is in CACHE_TEMPORARY, has no name, and is gone when it is closed. 0 or a negative errno; cache_leave() takes both. */
int cache_begin(struct cache_place *place, int cache_fd, const char *build_id, const char *name);

/* The file is whole: gives it its name. A descriptor for reading, or -1. */
int cache_end(struct cache_place *place);
void cache_leave(struct cache_place *place);

#endif
