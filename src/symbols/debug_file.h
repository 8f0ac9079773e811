/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SYMBOLS_DEBUG_FILE_H
#define ALLOCSNAP_SYMBOLS_DEBUG_FILE_H

/*
 * Separate debug files: the only files that symbolization opens by name.
 *
 * The object, its path and everything that it says about its debug file come from a process
 * that we do not trust, while we may be root. So nothing is looked up beside the object, in the
 * working directory or over the network (libdwfl's standard callback would do all three), but
 * only below one directory that belongs to root, /usr/lib/debug, in three ways:
 *
 *	.build-id/ab/cdef….debug      by build-id; the file found must carry the same id
 *	DIRECTORY OF PATH/NAME        by .gnu_debuglink; a plain name, no "..", the checksum must agree
 *	.dwz/…                        what a debug file shares with others (.gnu_debugaltlink), by
 *	                              build-id or from ".dwz/" on in its name; the id must agree
 *
 * Only regular files are opened. Symbolic links below the directory are root's, and followed.
 */

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

#define DEBUG_FILE_ROOT "/usr/lib/debug"

/*
 * The debug file of an object, open for reading; the caller closes it. -1 if there is none.
 * root_fd is the open directory (-1: none), path the object's name in its process.
 */
int debug_file__open(int root_fd, Elf *object, const char *path);

/* The shared part that a debug file names, likewise. */
int debug_file__open_shared(int root_fd, const char *name, const void *build_id,
			    size_t build_id_len);

#endif
