/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_DEBUG_FILE_H
#define ALLOCSNAP_SYMBOLS_DEBUG_FILE_H

/*
 * Separate debug files: the only files that symbolization opens by name.
 *
 * The object, its path and everything that it says about its debug file come from an untrusted
 * process, while this process may be root. So nothing is searched beside the object, in the working
 * directory or over the network (libdwfl's standard callback would do all three; src/debuginfod asks servers for symbolize). Only one directory
 * that belongs to root, /usr/lib/debug, and directories that a user has named are searched, in three
 * ways:
 *
 *	.build-id/ab/cdef….debug      by build-id; the file found must carry the same id
 *	DIRECTORY OF PATH/NAME        by .gnu_debuglink; a plain name, no "..", the checksum must agree
 *	.dwz/…                        the part shared by several debug files (.gnu_debugaltlink), by
 *	                              build-id or from ".dwz/" on in its name; the id must agree
 *
 * Only regular files are opened. Symbolic links below the directory are root's, and are followed.
 *
 * The process that reads the object only describes what it needs (struct debug_want). A process that
 * may open files opens a candidate; the process that asked then checks it.
 */

#include <gelf.h>
#include <stdbool.h>
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
	const uint8_t *build_id; /* for all kinds except links */
	size_t build_id_len;
	const char *name; /* for all kinds except build-ids */
	uint32_t nr; /* number of the candidate: earlier ones were rejected */
};

/*
 * Opens a candidate for an object of this path; the caller closes it. -1: there is no (further)
 * candidate.
 */
struct debug_opener {
	int (*open)(void *self, const char *object_path, const struct debug_want *want);
	void *self;
};

/*
 * The candidate below the open directory root_fd (-1: none); for openers that may open files. There
 * is only one.
 */
int debug_file__candidate(int root_fd, const char *object_path, const struct debug_want *want);

/*
 * Opens the object itself, not its debug file, as .build-id/ab/cdef… in such a directory; id in
 * hex. The file is not checked; the caller closes it. -1: no such file.
 */
int debug_file__object(int root_fd, const char *build_id);

/* Whether this is an ELF file with this build-id. */
bool debug_file__has_build_id(int fd, const void *want, size_t want_len);

/*
 * Gets a file that is in none of the directories from elsewhere. The caller checks the file and closes it; -1: no such file.
 */
enum fetched_file { FETCHED_DEBUG_FILE, FETCHED_OBJECT };

struct debug_fetcher {
	int (*fetch)(void *self, enum fetched_file which, const uint8_t *build_id, size_t build_id_len);
	void *self;
};

/* Opens and checks the debug file of an object; the caller closes it. -1: no such file. */
int debug_file__open(const struct debug_opener *opener, Elf *object, const char *path);

/*
 * Opens and checks the shared part that a debug file names; the caller closes it. -1: no such
 * file.
 */
int debug_file__open_shared(const struct debug_opener *opener, const char *name,
			    const void *build_id, size_t build_id_len);

#endif
