/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_ATOMIC_FILE_H
#define ALLOCSNAP_BASE_ATOMIC_FILE_H

#include <limits.h>
#include <stdbool.h>

/*
 * A file that is being written. It has no name, or a hidden one, until it is complete and on the disk,
 * so that its name never stands for a partial file. If the process dies, a nameless file leaves nothing.
 *
 *	err = atomic_file_open(&draft, dir_fd, name, false);
 *	if (!err)
 *		err = … write to draft.fd … ?: atomic_file_sync(&draft) ?: atomic_file_replace(&draft);
 *	atomic_file_close(&draft);
 *
 * The functions return 0 or a negative errno.
 */
struct atomic_file {
	int dir_fd; /* the caller's */
	int fd;
	const char *name;
	char hidden[NAME_MAX + 1]; /* the temporary name; "": there is none */
};

/*
 * Creates the file with mode 0600. It has a hidden name if `named` is set, or if the file system
 * does not support nameless files.
 */
int atomic_file_open(struct atomic_file *draft, int dir_fd, const char *name, bool named);

/* Syncs the file to the disk. */
int atomic_file_sync(const struct atomic_file *draft);

/* Gives the file a name. -EEXIST if the name is taken. */
int atomic_file_link(struct atomic_file *draft, const char *name);

/* Gives the file the name that it was opened with, and replaces a file of that name. */
int atomic_file_replace(struct atomic_file *draft);

/* Call this after a failure of atomic_file_open(), too. Removes the file if it has no name yet. */
void atomic_file_close(struct atomic_file *draft);

/* Syncs a directory to the disk; no error if its file system cannot. */
int sync_dir(int dir_fd);

#endif
