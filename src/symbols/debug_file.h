/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_DEBUG_FILE_H
#define ALLOCSNAP_SYMBOLS_DEBUG_FILE_H

/*
 * Separate debug files: the only files that symbolization opens by name.
 *
 * The object, its path and everything that it says about its debug file come from a process
 * that we do not trust, while we may be root. So nothing is looked up beside the object, in the
 * working directory or over the network (libdwfl's standard callback would do all three), but
 * only below one directory that belongs to root, /usr/lib/debug, and those that a user has named, in
 * three ways:
 *
 *	.build-id/ab/cdef….debug      by build-id; the file found must carry the same id
 *	DIRECTORY OF PATH/NAME        by .gnu_debuglink; a plain name, no "..", the checksum must agree
 *	.dwz/…                        what a debug file shares with others (.gnu_debugaltlink), by
 *	                              build-id or from ".dwz/" on in its name; the id must agree
 *
 * Only regular files are opened. Symbolic links below the directory are root's, and followed.
 *
 * Who reads the object only says what it wants (struct debug_want); whoever may open files
 * looks for a candidate, which is then checked by who asked.
 */

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

#define DEBUG_FILE_ROOT "/usr/lib/debug"
#define BUILD_ID_MIN 3
#define BUILD_ID_MAX 64

enum debug_kind {
	DEBUG_BY_BUILD_ID,
	DEBUG_BY_LINK,
	DEBUG_SHARED,
};

struct debug_want {
	enum debug_kind kind;
	const uint8_t *build_id; /* of all but links */
	size_t build_id_len;
	const char *name; /* of all but build-ids */
	uint32_t nr; /* of the candidates that there are: those before it were not right */
};

/* Opens a candidate for an object of this path; the caller closes it. -1 if there is none, or no more. */
struct debug_opener {
	int (*open)(void *self, const char *object_path, const struct debug_want *want);
	void *self;
};

/* What an opener does that may open files, below the open directory root_fd (-1: none): the only one there. */
int debug_file__candidate(int root_fd, const char *object_path, const struct debug_want *want);

/*
 * What has the build-id itself, as .build-id/ab/cdef… in such a directory; id in hex. Not checked; the
 * caller closes it. -1 if there is none.
 */
int debug_file__object(int root_fd, const char *build_id);

/* The debug file of an object, checked; the caller closes it. -1 if there is none. */
int debug_file__open(const struct debug_opener *opener, Elf *object, const char *path);

/* The shared part that a debug file names, likewise. */
int debug_file__open_shared(const struct debug_opener *opener, const char *name,
			    const void *build_id, size_t build_id_len);

#endif
